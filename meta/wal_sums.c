/* Checksums of what was written to the WAL since it was last empty. SQLite reads a frame's page just as it
 * wrote it, so pieces are kept as they were written and found by their offset. */
#include <stdlib.h>
#include <uthash.h>
#include <xxhash.h>
#include "meta/replicas_impl.h"

struct sfs_wal_sum {
    UT_hash_handle hh;
    uint64_t off;
    size_t len;
    uint64_t sum;
};

int sfs_wal_sums_put(struct sfs_wal_sum **sums, uint64_t off, const void *data, size_t len)
{
    struct sfs_wal_sum *s;
    HASH_FIND(hh, *sums, &off, sizeof(off), s);
    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s)
            return -ENOMEM;
        s->off = off;
        HASH_ADD(hh, *sums, off, sizeof(off), s);
    }
    s->len = len;
    s->sum = XXH3_64bits(data, len);
    return 0;
}

bool sfs_wal_sums_check(struct sfs_wal_sum *sums, uint64_t off, const void *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct sfs_wal_sum *s;
        uint64_t key = off + at;
        HASH_FIND(hh, sums, &key, sizeof(key), s);
        if (!s || s->len > len - at)
            return true;
        if (XXH3_64bits((const uint8_t *)data + at, s->len) != s->sum)
            return false;
        at += s->len;
    }
    return true;
}

void sfs_wal_sums_clear(struct sfs_wal_sum **sums)
{
    struct sfs_wal_sum *s, *tmp;
    HASH_ITER(hh, *sums, s, tmp)
    {
        HASH_DEL(*sums, s);
        free(s);
    }
}

size_t sfs_wal_sums_span(struct sfs_wal_sum *sums, uint64_t off, size_t max)
{
    size_t len = 0;
    for (;;) {
        struct sfs_wal_sum *s;
        uint64_t key = off + len;
        HASH_FIND(hh, sums, &key, sizeof(key), s);
        if (!s || len + s->len > max)
            return len ? len : max;
        len += s->len;
    }
}
