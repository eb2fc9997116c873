/* nfsclient URL all DIR | nfsclient URL hold DIR: what a client does over NFS (libnfs: the protocol, without the kernel).
 *
 * `all` makes DIR in the export and goes through what a client asks for, checking every answer. `hold` writes files in DIR, syncs
 * them, prints "ready", waits for a line, and then goes on with the files it holds open, as if nothing had happened: on the same
 * handles. It prints "done". */
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>

#include <nfsc/libnfs.h>

#define MIB (1u << 20)
#define PIECE 3072u /* more than that, libnfs 4.0 cannot send by NFSv4 */

static struct nfs_context *nfs;

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        int rc_ = (call);                                                                                    \
        if (rc_ < 0)                                                                                         \
            error(1, -rc_, "line %d: %s: %s", __LINE__, #call, nfs_get_error(nfs));                          \
    } while (0)
#define CHECK(cond)                                                                                          \
    do {                                                                                                     \
        if (!(cond))                                                                                         \
            error(1, 0, "line %d: not so: %s", __LINE__, #cond);                                             \
    } while (0)

static const char *in(const char *dir, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s%s%s%s", *dir == '/' ? "" : "/", dir, *name ? "/" : "", name);
    return path;
}

static void fill(uint8_t *p, size_t len, unsigned seed)
{
    for (size_t k = 0; k < len; k++)
        p[k] = (uint8_t)(k * 31 + (k >> 9) * 7 + seed);
}

/* In pieces, since a server takes and gives no more at once than it likes. */
static void write_all(struct nfsfh *fh, const uint8_t *data, uint64_t off, uint64_t len)
{
    while (len) {
        int n = nfs_pwrite(nfs, fh, off, len < PIECE ? len : PIECE, data);
        MUST(n);
        CHECK(n > 0);
        data += n, off += (uint64_t)n, len -= (uint64_t)n;
    }
}

static void read_all(struct nfsfh *fh, uint8_t *data, uint64_t off, uint64_t len)
{
    while (len) {
        int n = nfs_pread(nfs, fh, off, len < PIECE ? len : PIECE, data);
        MUST(n);
        CHECK(n > 0);
        data += n, off += (uint64_t)n, len -= (uint64_t)n;
    }
}

static unsigned count(const char *dir)
{
    struct nfsdir *d;
    unsigned n = 0;

    MUST(nfs_opendir(nfs, dir, &d));
    for (struct nfsdirent *e; (e = nfs_readdir(nfs, d));)
        n += strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0;
    nfs_closedir(nfs, d);
    return n;
}

static void many(const char *dir)
{
    struct nfsfh *fh;
    char name[32];

    MUST(nfs_mkdir(nfs, in(dir, "many")));
    for (unsigned k = 0; k < 300; k++) {
        snprintf(name, sizeof(name), "many/%u", k);
        MUST(nfs_open2(nfs, in(dir, name), O_RDWR | O_CREAT, 0644, &fh));
        MUST(nfs_close(nfs, fh));
    }
    CHECK(count(in(dir, "many")) == 300);
    CHECK(nfs_rmdir(nfs, in(dir, "many")) < 0); /* not empty */
    for (unsigned k = 0; k < 300; k++) {
        snprintf(name, sizeof(name), "many/%u", k);
        MUST(nfs_unlink(nfs, in(dir, name)));
    }
    MUST(nfs_rmdir(nfs, in(dir, "many")));
}

static void all(const char *dir)
{
    static uint8_t data[2 * MIB], back[2 * MIB];
    struct timeval times[2] = {{1000000000, 0}, {1234567890, 0}};
    struct nfs_stat_64 st, other;
    struct statvfs v;
    struct nfsfh *fh;
    char text[64];

    MUST(nfs_mkdir(nfs, in(dir, "")));
    MUST(nfs_open2(nfs, in(dir, "first"), O_RDWR | O_CREAT, 0644, &fh));
    write_all(fh, (const uint8_t *)"hello, world", 0, 12);
    MUST(nfs_fsync(nfs, fh));
    MUST(nfs_close(nfs, fh));
    MUST(nfs_rename(nfs, in(dir, "first"), in(dir, "second")));
    CHECK(nfs_stat64(nfs, in(dir, "first"), &st) == -ENOENT);
    MUST(nfs_link(nfs, in(dir, "second"), in(dir, "third")));
    MUST(nfs_symlink(nfs, "second", in(dir, "link")));
    MUST(nfs_readlink(nfs, in(dir, "link"), text, sizeof(text)));
    CHECK(strcmp(text, "second") == 0);
    MUST(nfs_chmod(nfs, in(dir, "third"), 0640));
    MUST(nfs_utimes(nfs, in(dir, "third"), times));
    MUST(nfs_stat64(nfs, in(dir, "second"), &st));
    MUST(nfs_stat64(nfs, in(dir, "third"), &other));
    CHECK(st.nfs_ino == other.nfs_ino && st.nfs_nlink == 2 && (st.nfs_mode & 07777) == 0640 && st.nfs_size == 12);
    CHECK(st.nfs_mtime == 1234567890 && st.nfs_atime == 1000000000);
    MUST(nfs_lstat64(nfs, in(dir, "link"), &st));
    CHECK(S_ISLNK(st.nfs_mode));
    CHECK(nfs_mkdir(nfs, in(dir, "second")) == -EEXIST);
    CHECK(nfs_rmdir(nfs, in(dir, "none")) == -ENOENT);
    many(dir);

    fill(data, sizeof(data), 3);
    MUST(nfs_open2(nfs, in(dir, "big"), O_RDWR | O_CREAT, 0600, &fh));
    write_all(fh, data, MIB, sizeof(data));
    MUST(nfs_fsync(nfs, fh));
    read_all(fh, back, MIB, sizeof(back));
    CHECK(memcmp(data, back, sizeof(back)) == 0);
    MUST(nfs_ftruncate(nfs, fh, MIB + 1000));
    CHECK(nfs_pread(nfs, fh, MIB, 65536, back) == 1000);
    MUST(nfs_ftruncate(nfs, fh, 2 * MIB));
    read_all(fh, back, MIB, MIB);
    CHECK(memcmp(data, back, 1000) == 0 && back[1000] == 0 && memcmp(back + 1000, back + 1001, MIB - 1001) == 0);
    MUST(nfs_fstat64(nfs, fh, &st));
    CHECK(st.nfs_size == 2 * MIB && (st.nfs_mode & 07777) == 0600);
    MUST(nfs_close(nfs, fh));
    MUST(nfs_statvfs(nfs, in(dir, "big"), &v));
    CHECK(v.f_blocks > 0 && v.f_bavail <= v.f_bfree);
    CHECK(count(in(dir, "")) == 4);
}

static void hold(const char *dir)
{
    static uint8_t data[MIB], back[MIB];
    struct nfsfh *held, *reading, *inside;
    struct nfs_stat_64 before, after;
    char line[16];

    fill(data, sizeof(data), 9);
    MUST(nfs_mkdir(nfs, in(dir, "")));
    MUST(nfs_mkdir(nfs, in(dir, "sub")));
    MUST(nfs_open2(nfs, in(dir, "held"), O_RDWR | O_CREAT, 0644, &held));
    write_all(held, data, 0, sizeof(data));
    MUST(nfs_fsync(nfs, held));
    MUST(nfs_open2(nfs, in(dir, "sub/inside"), O_RDWR | O_CREAT, 0644, &inside));
    write_all(inside, (const uint8_t *)"inside", 0, 6);
    MUST(nfs_fsync(nfs, inside));
    MUST(nfs_open(nfs, in(dir, "held"), O_RDONLY, &reading));
    MUST(nfs_fstat64(nfs, held, &before));
    puts("ready");
    if (!fgets(line, sizeof(line), stdin))
        error(1, 0, "nobody says that it goes on");

    MUST(nfs_fstat64(nfs, held, &after));
    CHECK(before.nfs_ino == after.nfs_ino && before.nfs_size == after.nfs_size && before.nfs_mode == after.nfs_mode);
    read_all(reading, back, 0, sizeof(back));
    CHECK(memcmp(data, back, sizeof(back)) == 0);
    read_all(inside, back, 0, 6);
    CHECK(memcmp(back, "inside", 6) == 0);
    write_all(held, (const uint8_t *)"after!", sizeof(data), 6);
    MUST(nfs_fsync(nfs, held));
    read_all(reading, back, sizeof(data), 6);
    CHECK(memcmp(back, "after!", 6) == 0);
    MUST(nfs_rename(nfs, in(dir, "sub/inside"), in(dir, "outside")));
    MUST(nfs_fstat64(nfs, inside, &after));
    CHECK(count(in(dir, "sub")) == 0 && count(in(dir, "")) == 3 && after.nfs_size == 6);
    MUST(nfs_close(nfs, inside));
    MUST(nfs_close(nfs, reading));
    MUST(nfs_close(nfs, held));
    puts("done");
}

int main(int argc, char **argv)
{
    struct nfs_url *url;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4)
        error(2, 0, "usage: nfsclient URL all|hold DIR");
    nfs = nfs_init_context();
    if (!nfs)
        error(1, errno, "no context");
    url = nfs_parse_url_dir(nfs, argv[1]);
    if (!url)
        error(1, 0, "%s: %s", argv[1], nfs_get_error(nfs));
    nfs_set_autoreconnect(nfs, -1); /* for as long as it takes */
    MUST(nfs_mount(nfs, url->server, url->path));
    if (strcmp(argv[2], "all") == 0)
        all(argv[3]);
    else if (strcmp(argv[2], "hold") == 0)
        hold(argv[3]);
    else
        error(2, 0, "there is no %s: all, hold", argv[2]);
    nfs_destroy_url(url);
    nfs_destroy_context(nfs);
    return 0;
}
