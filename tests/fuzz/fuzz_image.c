/* A hostile image file: patches on a formatted one (label and metadata map with their checksums made right), opened as a disk; everything that can be
 * asked of it is. It must stay within its own file, and memory within bounds. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/disk/disk.h"
#include "fs/disk/image.h"

#define IMAGE_BYTES (8u << 20)

static struct sfs_env *env;
static uint8_t *base; /* a formatted image's bytes */
static struct sfs_image_layout layout;
static char path[64];
static int fd;

static struct sfs_disk *open_image(struct sfs_error *err)
{
    const struct sfs_disk_opts opts = {.workers = 1};
    struct sfs_disk *d = NULL;
    int rc = sfs_disk_open(env, path, &opts, &d, err);
    FUZZ_CHECK(rc == 0 || err->text[0]);
    return rc ? NULL : d;
}

static void forget_image(void)
{
    unlink(path);
}

static void format(void)
{
    struct sfs_label *l = calloc(1, sizeof(*l));
    struct sfs_error err = {0};
    FUZZ_CHECK(l && (env = sfs_env_new_real()));
    snprintf(path, sizeof(path), "/tmp/fuzz_image.%d", (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, IMAGE_BYTES) == 0);
    atexit(forget_image);
    l->format = SFS_FORMAT_VERSION;
    l->slab_bytes = 1 << 20;
    l->epoch.number = 1;
    strcpy(l->pool_name, "tank");
    strcpy(l->disk_name, "a");
    memset(l->disk_uuid.b, 'd', sizeof(l->disk_uuid.b));
    memset(l->pool_uuid.b, 'p', sizeof(l->pool_uuid.b));
    l->npeers = 1;
    l->peers[0].uuid = l->disk_uuid;
    strcpy(l->peers[0].name, "a");
    FUZZ_CHECK(sfs_disk_format(env, path, NULL, 0, false, l, &err) == 0);
    struct sfs_disk *d = open_image(&err);
    FUZZ_CHECK(d && sfs_disk_meta_write(d, "catalog.db", path, sizeof(path), 100000) == 0);
    FUZZ_CHECK(sfs_disk_meta_sync(d, "catalog.db") == 0);
    sfs_disk_label(d, l);
    layout = l->layout;
    sfs_disk_close(d);
    base = malloc(IMAGE_BYTES);
    FUZZ_CHECK(base && pread(fd, base, IMAGE_BYTES, 0) == IMAGE_BYTES);
    free(l);
}

static void put(uint64_t off, const void *bytes, size_t len)
{
    FUZZ_CHECK(pwrite(fd, bytes, len, (off_t)off) == (ssize_t)len);
}

/* Patches on one checksummed piece of the image, put at both places where it lies. */
static void tamper(struct fuzz_input *in, uint64_t off, size_t len, uint64_t copy_off, bool map)
{
    uint8_t *bytes = malloc(len);
    size_t where, used = len;
    FUZZ_CHECK(bytes);
    memcpy(bytes, base + off, len);
    for (unsigned n = fuzz_take(in, 1) % 8; n > 0 && fuzz_patch(in, bytes, len, &where); n--)
        ;
    if (map) { /* the header says how much of it counts */
        uint32_t said;
        memcpy(&said, bytes + 12, sizeof(said));
        used = said >= 64 && said <= len ? said : len;
    }
    uint64_t sum = sfs_format_checksum(bytes, used);
    memcpy(bytes + 16, &sum, sizeof(sum));
    put(off, bytes, len);
    put(copy_off, bytes, len);
    free(bytes);
}

static void read_meta(const char *name, uint64_t size, void *ctx)
{
    static char buf[65536];
    struct sfs_disk *d = ctx;
    FUZZ_CHECK(strlen(name) < 32 && !strchr(name, '/'));
    int64_t n = sfs_disk_meta_read(d, name, buf, sizeof(buf), size / 2);
    FUZZ_CHECK(n <= (int64_t)sizeof(buf));
}

static void use(struct sfs_disk *d)
{
    struct sfs_buf *b = sfs_buf_new(4096);
    struct sfs_label *l = malloc(sizeof(*l));
    FUZZ_CHECK(b && l);
    memset(b->data, 0, 4096);
    sfs_disk_label(d, l);
    sfs_disk_meta_list(d, read_meta, d);
    (void)sfs_disk_meta_free_bytes(d, UINT64_MAX);
    const uint32_t last = l->capacity_slabs ? (uint32_t)(l->capacity_slabs - 1) : 0;
    struct sfs_io ios[] = {
        {.op = SFS_IO_READ, .disk = d, .slot = last, .off = l->slab_bytes - 4096, .len = 4096, .buf = b},
        {.op = SFS_IO_READ, .disk = d, .slot = 0, .off = 0, .len = 4096, .buf = b},
    };
    (void)sfs_io_run(ios, 2);
    if (sfs_disk_slab_alloc(d, last) == 0) {
        struct sfs_io io = {.op = SFS_IO_WRITE, .disk = d, .slot = last, .off = 0, .len = 4096, .buf = b};
        (void)sfs_io_run(&io, 1);
    }
    (void)sfs_disk_meta_write(d, "catalog.db-wal", "x", 1, 70000);
    (void)sfs_disk_meta_sync(d, "catalog.db-wal");
    (void)sfs_disk_write_label(d, l);
    sfs_buf_unref(b);
    free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct sfs_error err = {0};
    struct stat st;
    if (!base)
        format();
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, IMAGE_BYTES) == 0);
    put(layout.meta_off, base + layout.meta_off, (size_t)layout.base_chunks * layout.chunk_bytes);
    tamper(&in, 0, SFS_LABEL_BYTES, sfs_image_copy_off(IMAGE_BYTES), false);
    /* The copy that counts may be either: the same tampered bytes are put at both. */
    uint64_t a, b;
    memcpy(&a, base + layout.map_off + 24, sizeof(a));
    memcpy(&b, base + layout.map_off + layout.map_bytes + 24, sizeof(b));
    uint64_t at = layout.map_off + (b > a ? layout.map_bytes : 0);
    tamper(&in, at, layout.map_bytes, layout.map_off + (b > a ? 0 : layout.map_bytes), true);
    struct sfs_disk *d = open_image(&err);
    if (d) {
        use(d);
        sfs_disk_close(d);
    }
    FUZZ_CHECK(fstat(fd, &st) == 0 && st.st_size == IMAGE_BYTES); /* it never grows a file beyond its end */
    return 0;
}
