#include "tests/fuzz/pool.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>

#define DEPTH_MAX 8u     /* a tampered tree may have loops */
#define ENTRIES_MAX 200u

struct start {
    struct fuzz_pool pool;
    void (*body)(struct fuzz_pool *);
};

static void begin(void *arg)
{
    struct start *s = arg;
    s->body(&s->pool);
}

static void make(struct fuzz_pool *f);

static void make_and_save(struct fuzz_pool *f)
{
    make(f);
    sfs_sim_save(f->world, "a");
    sfs_sim_save(f->world, "b");
}

void fuzz_pool_run(const uint8_t *data, size_t size, void (*body)(struct fuzz_pool *))
{
    static struct fuzz_pool made; /* once: what is made is put back before each input */
    struct start s;
    if (!made.env) {
        made = (struct fuzz_pool){.env = sfs_env_new_sim(1)};
        FUZZ_CHECK(made.env && (made.world = sfs_sim_world_new(made.env)));
        s = (struct start){.pool = made, .body = make_and_save};
        sfs_sim_run(made.env, begin, &s);
    }
    sfs_sim_restore(made.world, "a");
    sfs_sim_restore(made.world, "b");
    s = (struct start){.pool = {.env = made.env, .world = made.world, .data = data, .size = size}, .body = body};
    sfs_sim_run(made.env, begin, &s);
}

/* --- making ------------------------------------------------------------------------------------------- */

static void fill(struct sfs_vfs *vfs)
{
    const struct sfs_cred root = {.privileged = true};
    uint64_t top = sfs_vfs_root(vfs);
    struct sfs_file *f;
    struct stat st;
    size_t n;
    char *bytes = malloc(200000);
    FUZZ_CHECK(bytes);
    for (unsigned i = 0; i < 200000; i++)
        bytes[i] = (char)(i * 2654435761u >> 24);
    FUZZ_CHECK(sfs_vfs_mkdir(vfs, top, "dir", S_IFDIR | 0755, &root, &st) == 0);
    FUZZ_CHECK(sfs_vfs_symlink(vfs, st.st_ino, "link", "../big", &root, &st) == 0);
    FUZZ_CHECK(sfs_vfs_create(vfs, top, "small", S_IFREG | 0644, O_RDWR, &root, &st, &f) == 0);
    FUZZ_CHECK(sfs_vfs_write(f, "hello\n", 6, 0, false, false, &n) == 0);
    FUZZ_CHECK(sfs_vfs_setxattr(vfs, st.st_ino, "user.key", "value", 5, 0, &root) == 0);
    sfs_vfs_release(f);
    FUZZ_CHECK(sfs_vfs_create(vfs, top, "big", S_IFREG | 0644, O_RDWR, &root, &st, &f) == 0);
    FUZZ_CHECK(sfs_vfs_write(f, bytes, 200000, 0, false, false, &n) == 0);
    FUZZ_CHECK(sfs_vfs_fsync(f, false) == 0);
    FUZZ_CHECK(sfs_vfs_write(f, bytes, 9000, 70000, false, false, &n) == 0);
    sfs_vfs_release(f);
    free(bytes);
}

static void make(struct fuzz_pool *f)
{
    const struct sfs_disk_spec disks[] = {{.path = "sim:a"}, {.path = "sim:b"}};
    const struct sfs_pool_create_opts opts = {.slab_bytes = 1 << 20, .world = f->world};
    const struct sfs_pool_open_opts open = {.world = f->world, .no_jobs = true};
    const enum sfs_resiliency mirror = SFS_MIRROR2;
    const struct sfs_space_settings settings = {.resiliency = &mirror};
    struct sfs_error err = {0};
    struct sfs_pool *p;
    struct sfs_volume *v;
    struct sfs_vfs *vfs;
    FUZZ_CHECK(sfs_sim_add(f->world, "a", 16 << 20, SFS_MEDIA_SSD) == 0);
    FUZZ_CHECK(sfs_sim_add(f->world, "b", 16 << 20, SFS_MEDIA_SSD) == 0);
    FUZZ_CHECK(sfs_pool_create(f->env, "tank", disks, 2, &opts, NULL, &err) == 0);
    FUZZ_CHECK(sfs_pool_open(f->env, "sim:a", &open, &p, &err) == 0);
    FUZZ_CHECK(sfs_pool_space_create(p, "s", &settings, &err) == 0);
    FUZZ_CHECK(sfs_pool_volume_get(p, "s", &v, &err) == 0);
    FUZZ_CHECK(sfs_vfs_open(v, NULL, &vfs, &err) == 0);
    fill(vfs);
    FUZZ_CHECK(sfs_vfs_close(vfs) == 0);
    sfs_pool_volume_put(p, v);
    FUZZ_CHECK(sfs_pool_close(p) == 0);
}

/* --- using -------------------------------------------------------------------------------------------- */

struct sfs_pool *fuzz_pool_open(struct fuzz_pool *f, bool readonly)
{
    const struct sfs_pool_open_opts open = {.world = f->world, .no_jobs = true, .readonly = readonly};
    struct sfs_error err = {0};
    struct sfs_pool *p = NULL;
    int rc = sfs_pool_open(f->env, "sim:a", &open, &p, &err);
    FUZZ_CHECK(rc == 0 || err.text[0]);
    return rc ? NULL : p;
}

struct names {
    char name[ENTRIES_MAX][256];
    struct stat st[ENTRIES_MAX];
    unsigned n;
};

static bool collect(void *ctx, const char *name, const struct stat *st, uint64_t next)
{
    struct names *l = ctx;
    (void)next;
    FUZZ_CHECK(name[0] && strlen(name) <= 255 && !strchr(name, '/'));
    if (l->n == ENTRIES_MAX)
        return false;
    strcpy(l->name[l->n], name);
    l->st[l->n++] = *st;
    return true;
}

static void read_file(struct sfs_vfs *vfs, uint64_t ino)
{
    struct sfs_file *f;
    static char buf[128 << 10];
    size_t n = 0;
    uint64_t hole;
    if (sfs_vfs_open_file(vfs, ino, O_RDONLY, &f))
        return;
    for (uint64_t off = 0; off < 4 << 20 && sfs_vfs_read(f, buf, sizeof(buf), off, &n) == 0 && n; off += n)
        FUZZ_CHECK(n <= sizeof(buf));
    (void)sfs_vfs_lseek(f, 0, SEEK_HOLE, &hole);
    sfs_vfs_release(f);
}

static void look(struct sfs_vfs *vfs, uint64_t ino, const struct stat *st)
{
    char buf[65536];
    size_t len;
    struct stat now;
    (void)sfs_vfs_getattr(vfs, ino, &now);
    (void)sfs_vfs_listxattr(vfs, ino, buf, sizeof(buf), &len);
    (void)sfs_vfs_getxattr(vfs, ino, "user.key", buf, sizeof(buf), &len);
    if (S_ISLNK(st->st_mode))
        (void)sfs_vfs_readlink(vfs, ino, buf, sizeof(buf), &len);
    if (S_ISREG(st->st_mode))
        read_file(vfs, ino);
}

static void walk(struct sfs_vfs *vfs, uint64_t dir, unsigned depth)
{
    struct names *l = calloc(1, sizeof(*l));
    FUZZ_CHECK(l);
    (void)sfs_vfs_readdir(vfs, dir, 0, false, collect, l);
    for (unsigned i = 0; i < l->n; i++) {
        struct stat st;
        if (!strcmp(l->name[i], ".") || !strcmp(l->name[i], "..") || sfs_vfs_lookup(vfs, dir, l->name[i], &st))
            continue;
        look(vfs, st.st_ino, &st);
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            walk(vfs, st.st_ino, depth + 1);
        sfs_vfs_forget(vfs, st.st_ino, 1);
    }
    free(l);
}

static void change(struct sfs_vfs *vfs)
{
    const struct sfs_cred root = {.privileged = true};
    uint64_t top = sfs_vfs_root(vfs);
    struct sfs_file *f;
    struct stat st;
    size_t n;
    static char bytes[20000];
    if (sfs_vfs_create(vfs, top, "new", S_IFREG | 0644, O_RDWR, &root, &st, &f) == 0) {
        (void)sfs_vfs_write(f, bytes, sizeof(bytes), 100, false, false, &n);
        (void)sfs_vfs_fsync(f, false);
        sfs_vfs_release(f);
    }
    (void)sfs_vfs_rename(vfs, top, "small", top, "renamed", 0);
    (void)sfs_vfs_unlink(vfs, top, "big");
    (void)sfs_vfs_sync(vfs);
}

void fuzz_pool_use(struct sfs_pool *p, const char *space)
{
    struct sfs_error err = {0};
    struct sfs_pool_info *info;
    struct sfs_volume *v;
    struct sfs_vfs *vfs;
    if (sfs_pool_info(p, &info) == 0)
        sfs_pool_info_free(info);
    if (sfs_pool_volume_get(p, space, &v, &err))
        return;
    if (sfs_vfs_open(v, NULL, &vfs, &err) == 0) {
        walk(vfs, sfs_vfs_root(vfs), 0);
        change(vfs);
        (void)sfs_vfs_close(vfs);
    }
    sfs_pool_volume_put(p, v);
}
