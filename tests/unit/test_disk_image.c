/* Images: formatting and refusing, labels and their copies, the metadata area and its map, disappearing. */
#include <fcntl.h>
#include <sys/stat.h>
#include "tests/unit/disk_common.h"
#include "fs/disk/label_format.h"

#define SLAB (1u << 20)
#define MIB (1ull << 20)

static struct sfs_env *env;
static char *dir, path[600];
static struct sfs_label *label;
static struct sfs_disk *disk;

static void open_disk(void)
{
    struct sfs_error err = {0};
    struct sfs_disk_opts opts = {.timeout_ns = 20000000000ull};
    cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, &err), 0, "%s", err.text);
}

static void close_disk(void)
{
    sfs_disk_close(disk);
    disk = NULL;
}

static int try_open(void)
{
    struct sfs_error err = {0};
    struct sfs_disk_opts opts = {0};
    struct sfs_disk *d = NULL;
    int rc = sfs_disk_open(env, path, &opts, &d, &err);
    cr_assert(rc == 0 || strlen(err.text) > 10);
    sfs_disk_close(d);
    return rc;
}

static int format(bool force)
{
    struct sfs_error err = {0};
    int rc = sfs_disk_format(env, path, NULL, 0, force, label, &err);
    cr_assert(rc == 0 || strlen(err.text) > 10);
    return rc;
}

static void setup(void)
{
    env = sfs_env_new_real();
    dir = test_scratch_new();
    snprintf(path, sizeof path, "%s/image", dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    cr_assert_eq(ftruncate(fd, 64 * MIB), 0);
    close(fd);
    label = test_label_new(env, "img", SLAB);
    cr_assert_eq(format(false), 0);
    open_disk();
}

static void teardown(void)
{
    close_disk();
    free(label);
    test_scratch_remove(dir);
    sfs_env_free(env);
    sfs_buf_trim_pool();
}

TestSuite(disk_image, .init = setup, .fini = teardown);

static void poke(uint64_t off, const void *bytes, size_t len)
{
    int fd = open(path, O_RDWR);
    cr_assert_eq(pwrite(fd, bytes, len, (off_t)off), (ssize_t)len);
    close(fd);
}

static void peek(uint64_t off, void *bytes, size_t len)
{
    int fd = open(path, O_RDONLY);
    cr_assert_eq(pread(fd, bytes, len, (off_t)off), (ssize_t)len);
    close(fd);
}

static uint64_t copy_off(void)
{
    return label->layout.image_bytes - SFS_LABEL_BYTES;
}

Test(disk_image, data_survives_reopen)
{
    uint32_t last = (uint32_t)label->capacity_slabs - 1;
    cr_assert_eq(label->capacity_slabs, 61);
    cr_assert_eq(sfs_disk_slab_alloc(disk, 0), 0);
    cr_assert_eq(test_write(disk, 0, 0, SLAB, 1), 0);
    cr_assert_eq(test_write(disk, last, SLAB - 8192, 8192, 2), 0);
    cr_assert_eq(test_write(disk, last + 1, 0, 4096, 2), -EINVAL);
    cr_assert_eq(test_sync(disk), 0);
    close_disk();
    open_disk();
    cr_assert_eq(test_read_is(disk, 0, 0, SLAB, 1), 0);
    cr_assert_eq(test_read_is(disk, last, SLAB - 8192, 8192, 2), 0);
    cr_assert_eq(sfs_disk_slab_free(disk, 0), 0);
    cr_assert_eq(test_read_is(disk, 0, 0, SLAB, 1), 1);
    cr_assert_eq(sfs_disk_check(disk), 0);
}

Test(disk_image, one_process)
{
    cr_assert_eq(try_open(), -EBUSY);
    cr_assert_eq(format(true), -EBUSY);
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &label->pool_uuid, NULL), -EBUSY);
}

/* A file as large as that, empty but for one byte. */
static void file_with_byte(uint64_t size_bytes, uint64_t at)
{
    cr_assert_eq(unlink(path), 0);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert_eq(ftruncate(fd, (off_t)size_bytes), 0);
    close(fd);
    poke(at, "x", 1);
}

Test(disk_image, refuses_a_file_of_data)
{
    static const uint64_t places[] = {0, 5000, 3 * MIB + 17, 32 * MIB, 64 * MIB - 1};
    static uint8_t zeros[4 * MIB];
    struct sfs_disk_probe *p = malloc(sizeof *p);
    close_disk();
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        char byte = 0;
        file_with_byte(64 * MIB, places[i]);
        cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0);
        cr_assert(p->holds_data, "a byte at %llu", (unsigned long long)places[i]);
        cr_assert_eq(format(false), -EEXIST, "a byte at %llu", (unsigned long long)places[i]);
        peek(places[i], &byte, 1);
        cr_assert_eq(byte, 'x', "refused, and changed all the same");
    }
    file_with_byte(1ull << 40, (1ull << 40) - 5); /* a huge one is no slower, for its holes aren't read */
    cr_assert_eq(format(false), -EEXIST);
    file_with_byte(64 * MIB, 32 * MIB);
    cr_assert_eq(format(true), 0, "forced");
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &label->pool_uuid, NULL), 0);
    poke(1 * MIB, zeros, sizeof zeros); /* written, and zeros: nothing that anybody would miss */
    cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0);
    cr_assert_not(p->holds_data);
    cr_assert_eq(format(false), 0);
    free(p);
}

/* One that has been in a pool, full of slabs, is empty when the pool lets go of it: it needs no force to be used again. */
Test(disk_image, wiped_is_empty)
{
    for (uint32_t slot = 0; slot < 8; slot++)
        cr_assert_eq(test_write(disk, slot, 0, SLAB, 1), 0);
    cr_assert_eq(test_sync(disk), 0);
    close_disk();
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &label->pool_uuid, NULL), 0);
    cr_assert_eq(format(false), 0);
    open_disk();
}

Test(disk_image, refuses_what_is_in_use)
{
    close_disk();
    cr_assert_eq(format(false), -EEXIST, "our own");
    struct sfs_uuid other = label->pool_uuid;
    other.b[3] ^= 1;
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &other, NULL), -EINVAL);
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &label->pool_uuid, NULL), 0);
    cr_assert_eq(try_open(), -ENOENT);

    char command[700];
    snprintf(command, sizeof command, "mkfs.ext4 -q -F '%s'", path);
    cr_assert_eq(system(command), 0);
    struct sfs_disk_probe *p = malloc(sizeof *p);
    cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0);
    cr_assert_eq(p->kind, SFS_DISK_IMAGE);
    cr_assert_not(p->has_label);
    cr_assert_str_eq(p->signature, "ext4");
    cr_assert_eq(format(false), -EEXIST);
    cr_assert_eq(format(true), 0);
    cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0);
    cr_assert(p->has_label);
    cr_assert_eq(p->size_bytes, 64 * MIB);
    cr_assert_str_eq(p->label.disk_name, "img");
    cr_assert_str_eq(p->signature, "");
    free(p);

    /* Made a filesystem behind our back: the copy of the label at its end must not bring us back over it. */
    cr_assert_eq(system(command), 0);
    cr_assert_eq(try_open(), -ENOENT);
    cr_assert_eq(format(false), -EEXIST);
}

Test(disk_image, too_small)
{
    close_disk();
    cr_assert_eq(truncate(path, 2 * MIB), 0);
    cr_assert_eq(format(true), -ENOSPC);
    cr_assert_eq(truncate(path, 0), 0);
    for (off_t size = 0; size < 6000; size += 1500) {
        cr_assert_eq(truncate(path, size), 0);
        cr_assert_eq(format(false), -ENOSPC, "%ld", (long)size);
    }
    cr_assert_eq(truncate(path, 5 * MIB + 123), 0);
    cr_assert_eq(format(true), 0);
    cr_assert_eq(sfs_disk_format(env, path, NULL, 6 * MIB, true, label, NULL), -ENOSPC);
    cr_assert_eq(sfs_disk_format(env, path, NULL, 1 * MIB, true, label, NULL), 0);
    cr_assert_eq(label->capacity_slabs, 1);
    open_disk();
    cr_assert_eq(sfs_disk_check(disk), 0);
}

Test(disk_image, label_is_mended_from_its_copy)
{
    static const uint8_t junk[SFS_LABEL_BYTES] = {1};
    uint8_t front[SFS_LABEL_BYTES], copy[SFS_LABEL_BYTES];
    struct sfs_label *l = malloc(sizeof *l);
    sfs_disk_label(disk, l);
    l->epoch.number = 8;
    cr_assert_eq(sfs_disk_write_label(disk, l), 0);
    close_disk();

    poke(0, junk, sizeof junk);
    struct sfs_disk_opts opts = {.readonly = true};
    cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, NULL), 0);
    cr_assert_eq(sfs_disk_write_label(disk, l), -EROFS);
    cr_assert_eq(test_write(disk, 0, 0, 4096, 1), -EROFS);
    cr_assert_eq(sfs_disk_meta_write(disk, "x", "x", 1, 0), -EROFS);
    close_disk();
    peek(0, front, sizeof front);
    cr_assert(memcmp(front, junk, sizeof junk) == 0, "reading only mends nothing");
    open_disk();
    sfs_disk_label(disk, l);
    cr_assert_eq(l->epoch.number, 8);
    close_disk();
    peek(0, front, sizeof front);
    peek(copy_off(), copy, sizeof copy);
    cr_assert(memcmp(front, copy, sizeof front) == 0);

    copy[5000] ^= 1;
    poke(copy_off(), copy, sizeof copy);
    open_disk();
    close_disk();
    peek(copy_off(), copy, sizeof copy);
    cr_assert(memcmp(front, copy, sizeof front) == 0);

    front[5000] ^= 1;
    poke(0, front, sizeof front);
    poke(copy_off(), front, sizeof front);
    cr_assert_eq(try_open(), -EUCLEAN);
    cr_assert_eq(format(false), -EEXIST);
    free(l);
}

/* --- metadata --------------------------------------------------------------------------------- */

static void meta_fill(const char *name, uint64_t off, size_t len, uint64_t seed)
{
    uint8_t *bytes = malloc(len);
    test_pattern(bytes, len, seed);
    cr_assert_eq(sfs_disk_meta_write(disk, name, bytes, len, off), 0);
    free(bytes);
}

static bool meta_is(const char *name, uint64_t off, size_t len, uint64_t seed)
{
    uint8_t *bytes = malloc(len), *want = malloc(len);
    test_pattern(want, len, seed);
    bool same =
        sfs_disk_meta_read(disk, name, bytes, len, off) == (int64_t)len && memcmp(bytes, want, len) == 0;
    free(bytes);
    free(want);
    return same;
}

Test(disk_image, meta_files)
{
    char bytes[32];
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db"), -ENOENT);
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db", bytes, 4, 0), -ENOENT);
    cr_assert_eq(sfs_disk_meta_truncate(disk, "catalog.db", 4), -ENOENT);
    meta_fill("catalog.db", 0, 300000, 1);
    meta_fill("catalog.db-wal", 100, 200000, 2);
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db"), 300000);
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db-wal"), 200100);
    cr_assert(meta_is("catalog.db", 0, 300000, 1));
    cr_assert(meta_is("catalog.db-wal", 100, 200000, 2));
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db-wal", bytes, 32, 200090), 10);
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db-wal", bytes, 32, 90), 32);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(bytes[i], 0, "a hole");
    cr_assert_eq(sfs_disk_meta_sync(disk, "catalog.db"), 0);
    close_disk();
    open_disk();
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db"), 300000, "exact after a clean close");
    cr_assert(meta_is("catalog.db", 0, 300000, 1));
    cr_assert(meta_is("catalog.db-wal", 100, 200000, 2));

    cr_assert_eq(sfs_disk_meta_truncate(disk, "catalog.db", 1000), 0);
    cr_assert_eq(sfs_disk_meta_truncate(disk, "catalog.db", 70000), 0);
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db", bytes, 32, 1000), 32);
    for (int i = 0; i < 32; i++)
        cr_assert_eq(bytes[i], 0, "what was cut off does not come back");
    cr_assert_eq(sfs_disk_meta_delete(disk, "catalog.db"), 0);
    cr_assert_eq(sfs_disk_meta_sync(disk, "catalog.db"), 0);
    close_disk();
    open_disk();
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db"), -ENOENT);
    cr_assert(meta_is("catalog.db-wal", 100, 200000, 2));
}

static unsigned claims_left;
static uint32_t next_claim;

static int64_t claim(struct sfs_disk *d, void *ctx)
{
    (void)ctx;
    (void)d;
    if (claims_left == 0)
        return -ENOSPC;
    claims_left--;
    return next_claim--;
}

Test(disk_image, meta_grows_by_claims)
{
    next_claim = (uint32_t)label->capacity_slabs - 1;
    claims_left = 3;
    uint8_t *bytes = calloc(1, 128 << 10);
    int rc = 0;
    unsigned written = 0;
    cr_assert_eq(sfs_disk_meta_free_bytes(disk, UINT32_MAX) / MIB, 2 + 14);
    cr_assert_eq(sfs_disk_meta_free_bytes(disk, 3) / MIB, 2 + 3);
    cr_assert_eq(sfs_disk_meta_free_bytes(disk, 0) / MIB, 2);
    sfs_disk_on_claim(disk, claim, NULL);
    while ((rc = sfs_disk_meta_write(disk, "big", bytes, 128 << 10, (uint64_t)written * (128 << 10))) == 0) {
        memset(bytes, (int)++written, 128 << 10);
        cr_assert_lt(written, 1000);
    }
    cr_assert_eq(rc, -ENOSPC);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_ONLINE);
    cr_assert_eq(written, (2 + 3) * 8, "2 MiB at first, then three slots");
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t slot = (uint32_t)label->capacity_slabs - 1 - i;
        cr_assert(sfs_disk_slot_claimed(disk, slot));
        cr_assert_eq(sfs_disk_slab_alloc(disk, slot), -EBUSY);
        cr_assert_eq(sfs_disk_slab_free(disk, slot), -EBUSY);
    }
    cr_assert_not(sfs_disk_slot_claimed(disk, 0));
    cr_assert_eq(sfs_disk_meta_sync(disk, "big"), 0);
    close_disk();
    open_disk();
    cr_assert(sfs_disk_slot_claimed(disk, (uint32_t)label->capacity_slabs - 3));
    for (unsigned i = 0; i < written; i++) {
        cr_assert_eq(sfs_disk_meta_read(disk, "big", bytes, 128 << 10, (uint64_t)i * (128 << 10)), 128 << 10);
        cr_assert(bytes[0] == (uint8_t)i && bytes[(128 << 10) - 1] == (uint8_t)i);
    }
    /* Chunks given up are used again, without a claim. */
    sfs_disk_on_claim(disk, claim, NULL);
    cr_assert_eq(sfs_disk_meta_delete(disk, "big"), 0);
    for (unsigned i = 0; i < written; i++)
        cr_assert_eq(sfs_disk_meta_write(disk, "again", bytes, 128 << 10, (uint64_t)i * (128 << 10)), 0);
    free(bytes);
}

/* Slots are claimed ahead, so that the metadata can grow on after the last free slot has gone to data. */
Test(disk_image, meta_keeps_room_for_itself)
{
    uint8_t *bytes = calloc(1, 128 << 10);
    unsigned written = 0;
    next_claim = (uint32_t)label->capacity_slabs - 1;
    claims_left = UINT32_MAX;
    sfs_disk_on_claim(disk, claim, NULL);
    for (; written < 8; written++)
        cr_assert_eq(sfs_disk_meta_write(disk, "big", bytes, 128 << 10, (uint64_t)written * (128 << 10)), 0);
    unsigned ahead = UINT32_MAX - claims_left;
    cr_assert_gt(ahead, 0);
    claims_left = 0;
    uint64_t room = sfs_disk_meta_free_bytes(disk, 0);
    cr_assert_geq(room, label->layout.image_bytes / 16 - MIB);
    cr_assert_eq(sfs_disk_meta_sync(disk, "big"), 0);
    close_disk();
    open_disk(); /* nobody grants slots yet */
    cr_assert_eq(sfs_disk_meta_free_bytes(disk, 0), room);
    for (uint64_t grown = 0; grown < room; grown += 128 << 10)
        cr_assert_eq(sfs_disk_meta_write(disk, "big", bytes, 128 << 10, (uint64_t)written++ * (128 << 10)), 0);
    cr_assert_eq(sfs_disk_meta_write(disk, "big", bytes, 128 << 10, (uint64_t)written * (128 << 10)), -ENOSPC);
    free(bytes);
}

/* A copy of the image as it is now, past the open disk: what a crash with all writes done would leave. */
static void crash_copy(void)
{
    char command[2600];
    snprintf(command, sizeof command, "cp '%s' '%s.now' && mv '%s.now' '%s'", path, path, path, path);
    cr_assert_eq(system(command), 0);
    sfs_disk_fence(disk, SFS_DISK_FAILED, "crash");
    close_disk();
    open_disk();
}

Test(disk_image, unclean_sizes_are_rounded_up)
{
    meta_fill("wal", 0, 5000, 1);
    cr_assert_eq(sfs_disk_meta_sync(disk, "wal"), 0);
    meta_fill("wal", 5000, 5000, 2);
    cr_assert_eq(sfs_disk_meta_sync(disk, "wal"), 0);
    crash_copy();
    int64_t size = sfs_disk_meta_size(disk, "wal");
    cr_assert(size >= 10000 && size <= 10000 + (64 << 10), "%lld", (long long)size);
    cr_assert(meta_is("wal", 0, 5000, 1));
    cr_assert(meta_is("wal", 5000, 5000, 2));
    uint8_t *rest = malloc(64 << 10);
    int64_t got = sfs_disk_meta_read(disk, "wal", rest, 64 << 10, 10000);
    for (int64_t i = 0; i < got; i++)
        cr_assert_eq(rest[i], 0);
    free(rest);
}

Test(disk_image, freed_chunks_wait_for_the_map)
{
    meta_fill("a", 0, MIB, 1);
    cr_assert_eq(sfs_disk_meta_sync(disk, "a"), 0);
    cr_assert_eq(sfs_disk_meta_delete(disk, "a"), 0);
    meta_fill("b", 0, MIB, 2); /* fits beside a's chunks, so must not take them */
    crash_copy();
    cr_assert(meta_is("a", 0, MIB, 1), "the deletion was not synced: all of it is back");
}

Test(disk_image, torn_map)
{
    uint8_t junk[64];
    memset(junk, 0xff, sizeof junk);
    for (unsigned n = 0; n < 4; n++) {
        char name[8];
        snprintf(name, sizeof name, "f%u", n);
        meta_fill(name, 0, 5000, n);
        cr_assert_eq(sfs_disk_meta_sync(disk, name), 0);
    }
    sfs_disk_fence(disk, SFS_DISK_FAILED, "crash");
    close_disk();
    struct sfs_map_disk maps[2];
    for (unsigned i = 0; i < 2; i++)
        peek(label->layout.map_off + i * label->layout.map_bytes, &maps[i], sizeof maps[i]);
    cr_assert_neq(maps[0].sequence, maps[1].sequence);
    unsigned newer = maps[1].sequence > maps[0].sequence;
    poke(label->layout.map_off + newer * label->layout.map_bytes + 100, junk, sizeof junk);
    open_disk();
    cr_assert(meta_is("f0", 0, 5000, 0));
    cr_assert(meta_is("f2", 0, 5000, 2));
    cr_assert_eq(sfs_disk_meta_size(disk, "f3"), -ENOENT,
                 "the last sync's map is torn: the one before counts");
    meta_fill("f3", 0, 5000, 3);
    cr_assert_eq(sfs_disk_meta_sync(disk, "f3"), 0);
    close_disk();
    open_disk();
    cr_assert(meta_is("f1", 0, 5000, 1));
    cr_assert(meta_is("f3", 0, 5000, 3));
    close_disk();

    for (unsigned i = 0; i < 2; i++)
        poke(label->layout.map_off + i * label->layout.map_bytes, junk, sizeof junk);
    open_disk();
    cr_assert_eq(sfs_disk_meta_size(disk, "f1"), -ENOENT, "both damaged: empty, but the slabs are there");
    meta_fill("f1", 0, 5000, 1);
    cr_assert_eq(sfs_disk_meta_sync(disk, "f1"), 0);
    close_disk();
    open_disk();
    cr_assert(meta_is("f1", 0, 5000, 1));
}

/* Maps with a right checksum that make no sense, and random ones: the disk opens, the area is empty or the
 * older map's. */
Test(disk_image, hostile_map)
{
    meta_fill("a", 0, 200000, 1);
    close_disk();
    uint8_t *bytes = malloc(label->layout.map_bytes), *bad = malloc(label->layout.map_bytes);
    struct sfs_map_disk *h = (struct sfs_map_disk *)bad;
    struct sfs_map_disk maps[2];
    for (unsigned i = 0; i < 2; i++)
        peek(label->layout.map_off + i * label->layout.map_bytes, &maps[i], sizeof maps[i]);
    unsigned newer = maps[1].sequence > maps[0].sequence;
    peek(label->layout.map_off + newer * label->layout.map_bytes, bytes, label->layout.map_bytes);
    uint32_t used = maps[newer].bytes;
    for (unsigned round = 0; round < 200; round++) {
        memcpy(bad, bytes, label->layout.map_bytes);
        for (unsigned i = 0; i < 1 + round % 4; i++)
            bad[32 + sfs_env_rand(env) % (used - 32)] = (uint8_t)sfs_env_rand(env);
        if (h->bytes == used)
            h->checksum = sfs_format_checksum(bad, used);
        poke(label->layout.map_off + newer * label->layout.map_bytes, bad, label->layout.map_bytes);
        struct sfs_disk_opts opts = {.readonly = true};
        cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, NULL), 0);
        int64_t size = sfs_disk_meta_size(disk, "a");
        uint8_t byte;
        if (size > 0)
            cr_assert_eq(sfs_disk_meta_read(disk, "a", &byte, 1, (uint64_t)size - 1), 1);
        close_disk();
    }
    free(bytes);
    free(bad);
}

/* --- gone ------------------------------------------------------------------------------------- */

static void assert_gone(void)
{
    cr_assert_eq(sfs_disk_check(disk), -ENODEV);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_GONE);
    cr_assert_gt(strlen(sfs_disk_state_why(disk)), 5);
    cr_assert_eq(test_write(disk, 0, 0, 4096, 1), -ENODEV);
}

Test(disk_image, truncated)
{
    cr_assert_eq(truncate(path, 32 * MIB), 0);
    assert_gone();
    close_disk();
    cr_assert_eq(try_open(), -EUCLEAN);
    cr_assert_eq(truncate(path, 64 * MIB), 0);
    open_disk();
}

Test(disk_image, truncated_is_seen_by_reading)
{
    cr_assert_eq(test_write(disk, 50, 0, 4096, 1), 0);
    cr_assert_eq(truncate(path, 32 * MIB), 0);
    cr_assert_eq(test_read_is(disk, 50, 0, 4096, 1), -EIO);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_GONE);
}

Test(disk_image, renamed)
{
    char other[700];
    snprintf(other, sizeof other, "%s.away", path);
    cr_assert_eq(rename(path, other), 0);
    assert_gone();
    cr_assert_eq(rename(other, path), 0);
    close_disk();
    open_disk();
}

Test(disk_image, overwritten)
{
    uint8_t zeros[4096] = {0};
    poke(0, zeros, sizeof zeros);
    assert_gone();
}

static void loop_command(const char *command, char *out, size_t out_bytes)
{
    FILE *f = popen(command, "r");
    cr_assert_not_null(f);
    if (!fgets(out, (int)out_bytes, f))
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    cr_assert_eq(pclose(f), 0, "%s", command);
}

Test(disk_image, loop_device)
{
    char command[700], file[600], dev[64];
    if (geteuid() != 0 || access("/dev/loop-control", W_OK) != 0)
        cr_skip_test("needs root and loop devices");
    struct sfs_disk_probe *p = malloc(sizeof *p);
    close_disk();
    cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0);
    uint64_t ino = p->ino, dev_number = p->dev;
    strcpy(file, path);
    snprintf(command, sizeof command, "losetup -f --show '%s'", file);
    loop_command(command, dev, sizeof dev);
    strcpy(path, dev);
    open_disk();
    cr_assert_eq(try_open(), -EBUSY);
    cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0, "looking at one's own open device is allowed");
    cr_assert(p->has_label && p->ino == ino && p->dev == dev_number, "the loop device is the file behind it");
    cr_assert_eq(test_write(disk, 0, 0, SLAB, 1), 0);
    cr_assert_eq(test_sync(disk), 0);
    cr_assert_eq(test_read_is(disk, 0, 0, SLAB, 1), 0);
    meta_fill("catalog.db", 0, 100000, 1);
    cr_assert_eq(sfs_disk_meta_sync(disk, "catalog.db"), 0);
    cr_assert_eq(sfs_disk_check(disk), 0);
    cr_assert_eq(sfs_disk_slab_free(disk, 1), 0);
    snprintf(command, sizeof command, "losetup -d %s", dev);
    loop_command(command, p->signature, sizeof p->signature);
    assert_gone();
    close_disk();
    strcpy(path, file);
    open_disk();
    cr_assert_eq(test_read_is(disk, 0, 0, SLAB, 1), 0);
    cr_assert(meta_is("catalog.db", 0, 100000, 1));
    free(p);
}
