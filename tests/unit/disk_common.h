/* Shared by the tests of fs/disk: a label to format with, a scratch directory. */
#ifndef TESTS_UNIT_DISK_COMMON_H
#define TESTS_UNIT_DISK_COMMON_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fs/base/buf.h"
#include "fs/disk/disk.h"

static inline struct sfs_label *test_label_new(struct sfs_env *env, const char *name, uint64_t slab_bytes)
{
    struct sfs_label *l = calloc(1, sizeof *l);
    cr_assert_not_null(l);
    l->format = SFS_FORMAT_VERSION;
    sfs_uuid_generate(env, &l->pool_uuid);
    sfs_uuid_generate(env, &l->disk_uuid);
    snprintf(l->pool_name, sizeof l->pool_name, "tank");
    snprintf(l->disk_name, sizeof l->disk_name, "%s", name);
    l->slab_bytes = slab_bytes;
    l->replica = true;
    l->epoch.number = 7;
    sfs_uuid_generate(env, &l->epoch.id);
    l->epoch.nhistory = 2;
    sfs_uuid_generate(env, &l->epoch.history[0]);
    sfs_uuid_generate(env, &l->epoch.history[1]);
    l->npeers = 1;
    l->peers[0].uuid = l->disk_uuid;
    snprintf(l->peers[0].name, sizeof l->peers[0].name, "%s", name);
    snprintf(l->peers[0].path, sizeof l->peers[0].path, "/mnt/%s", name);
    l->peers[0].replica = true;
    return l;
}

/* A fresh directory under TMPDIR; test_scratch_remove takes it away. */
static inline char *test_scratch_new(void)
{
    const char *tmp = getenv("TMPDIR");
    char *path = malloc(512);
    cr_assert_not_null(path);
    snprintf(path, 512, "%s/sfs-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static inline void test_scratch_remove(char *path)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    cr_assert_eq(system(command), 0);
    free(path);
}

static inline void test_pattern(uint8_t *out, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(seed >> 56);
    }
}

static inline int test_io(struct sfs_disk *d, enum sfs_io_op op, uint32_t slot, uint64_t off,
                          struct sfs_buf *buf, uint32_t len)
{
    struct sfs_io io = {.op = op, .disk = d, .slot = slot, .off = off, .len = len, .buf = buf};
    unsigned failed = sfs_io_run(&io, 1);
    cr_assert_eq(failed, io.result != 0);
    return io.result;
}

static inline int test_write(struct sfs_disk *d, uint32_t slot, uint64_t off, uint32_t len, uint64_t seed)
{
    struct sfs_buf *buf = sfs_buf_new(len);
    test_pattern(buf->data, len, seed);
    int rc = test_io(d, SFS_IO_WRITE, slot, off, buf, len);
    sfs_buf_unref(buf);
    return rc;
}

static inline int test_sync(struct sfs_disk *d)
{
    return test_io(d, SFS_IO_SYNC, 0, 0, NULL, 0);
}

/* 0: reads what test_write wrote with that seed. 1: something else. Negative: the error. */
static inline int test_read_is(struct sfs_disk *d, uint32_t slot, uint64_t off, uint32_t len, uint64_t seed)
{
    struct sfs_buf *buf = sfs_buf_new(len), *want = sfs_buf_new(len);
    memset(buf->data, 0xee, len);
    test_pattern(want->data, len, seed);
    int rc = test_io(d, SFS_IO_READ, slot, off, buf, len);
    if (rc == 0)
        rc = memcmp(buf->data, want->data, len) != 0;
    sfs_buf_unref(buf);
    sfs_buf_unref(want);
    return rc;
}

#endif
