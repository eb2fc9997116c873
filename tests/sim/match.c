/* A file that was read, held against the versions that it may be made of, block by block. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/pattern.h"
#include "tests/sim/run.h"

#define CHUNK (1u << 20)

static unsigned first_allowed(const struct sim_content *c, const struct sim_match *m)
{
    unsigned n = 0;

    if (m->exact)
        return c->n - 1;
    while (n + 1 < c->n && c->versions[n].number < m->floor)
        n++;
    return n;
}

/* The oldest allowed version whose bytes at [off, off + len) are these; NULL. */
static const struct sim_version *find_version(const struct sim_content *c, const struct sim_match *m, uint64_t off, const uint8_t *data, size_t len)
{
    uint8_t expected[SIM_BLOCK];

    for (unsigned n = first_allowed(c, m); n < c->n; n++) {
        const struct sim_version *v = &c->versions[n];

        if (v->size < off + len)
            continue;
        sim_version_render(v, off, len, expected);
        if (memcmp(expected, data, len) == 0)
            return v;
    }
    return NULL;
}

static size_t equal_prefix(const struct sim_version *v, uint64_t off, const uint8_t *data, size_t len, uint8_t *expected)
{
    size_t at = 0;

    sim_version_render(v, off, len, expected);
    while (at < len && expected[at] == data[at])
        at++;
    return v->size < off + at ? v->size - off : at;
}

/* What is wrong, in words: which version comes closest, where it differs, what is there and what should be. */
static void explain(const struct sim_content *c, struct sim_match *m, uint64_t off, const uint8_t *data, size_t len)
{
    const struct sim_version *first = &c->versions[first_allowed(c, m)], *last = sim_content_last(c), *closest = first;
    uint8_t expected[SIM_BLOCK];
    char has[80] = "its end", found[80] = "more";
    size_t most = 0, at;

    for (const struct sim_version *v = first; v <= last; v++) {
        if (v->size <= off)
            continue;
        at = equal_prefix(v, off, data, len, expected);
        if (at >= most) {
            most = at;
            closest = v;
        }
    }
    if (closest->size > off) {
        most = equal_prefix(closest, off, data, len, expected);
        if (most < len) {
            sim_pattern_name(data + most, len - most, found, sizeof(found));
            if (off + most < closest->size)
                sim_pattern_name(expected + most, len - most, has, sizeof(has));
        }
    }
    snprintf(m->why, sizeof(m->why), "block at %llu is in none of the versions %llu..%llu; %llu (size %llu) comes closest: at %llu it has %s, found is %s",
             (unsigned long long)off, (unsigned long long)first->number, (unsigned long long)last->number,
             (unsigned long long)closest->number, (unsigned long long)closest->size, (unsigned long long)(off + most), has, found);
}

static void matched(struct sim_match *m, const struct sim_version *v, uint64_t off, size_t len)
{
    if (v->start > m->from_clock)
        m->from_clock = v->start;
    if (m->found)
        sim_version_append(m->found, v, off, len);
}

bool sim_match_range(struct sim_actor *a, const struct sim_content *c, uint64_t off, const uint8_t *data, size_t len, struct sim_match *m)
{
    (void)a;
    while (len > 0) {
        size_t n = SIM_BLOCK - off % SIM_BLOCK;
        const struct sim_version *v;

        if (n > len)
            n = len;
        v = find_version(c, m, off, data, n);
        if (!v) {
            explain(c, m, off, data, n);
            return false;
        }
        matched(m, v, off, n);
        off += n;
        data += n;
        len -= n;
    }
    return true;
}

static bool size_allowed(const struct sim_content *c, const struct sim_match *m, uint64_t size)
{
    unsigned first = first_allowed(c, m);

    for (unsigned n = first; n < c->n; n++) {
        const struct sim_version *v = &c->versions[n], *before = n > first ? v - 1 : NULL;

        if (v->size == size || (before && before->size <= size && size <= v->size))
            return true;
    }
    return false;
}

/* Block by block, where a longer read has failed. */
static int match_blocks(struct sim_actor *a, struct sfs_file *f, const struct sim_content *c, uint64_t off, size_t len, uint8_t *buf, struct sim_match *m)
{
    for (size_t n; len > 0; off += n, len -= n) {
        size_t got = 0;
        int rc;

        n = len < SIM_BLOCK ? len : SIM_BLOCK;
        rc = sfs_vfs_read(f, buf, n, off, &got);
        if (rc == -EIO) {
            m->lossy = true;
            if (m->found)
                sim_version_append(m->found, sim_content_last(c), off, n);
            continue;
        }
        if (rc < 0 || got != n) {
            snprintf(m->why, sizeof(m->why), "reading the block at %llu: %s, %zu bytes of %zu", (unsigned long long)off, strerror(-rc), got, n);
            return -1;
        }
        if (!sim_match_range(a, c, off, buf, n, m))
            return -1;
    }
    return 0;
}

static int match_contents(struct sim_actor *a, struct sfs_file *f, const struct sim_content *c, uint64_t size, uint8_t *buf, struct sim_match *m)
{
    for (uint64_t off = 0; off < size; off += CHUNK) {
        size_t len = size - off < CHUNK ? (size_t)(size - off) : CHUNK, got = 0;
        int rc = sfs_vfs_read(f, buf, len, off, &got);

        if (rc == -EIO && m->eio_ok) {
            if (match_blocks(a, f, c, off, len, buf, m) < 0)
                return -1;
            continue;
        }
        for (uint64_t at = off; rc == -EIO && at < off + len; at += SIM_BLOCK) { /* where? */
            size_t one = off + len - at < SIM_BLOCK ? (size_t)(off + len - at) : SIM_BLOCK;

            if (sfs_vfs_read(f, buf, one, at, &got) == -EIO) {
                snprintf(m->why, sizeof(m->why), "the block at %llu can't be read (EIO)", (unsigned long long)at);
                return -1;
            }
        }
        if (rc < 0 || got != len) {
            snprintf(m->why, sizeof(m->why), "reading at %llu: %s, %zu bytes of %zu", (unsigned long long)off, strerror(-rc), got, len);
            return -1;
        }
        if (!sim_match_range(a, c, off, buf, len, m))
            return -1;
        a->run->stats.bytes_checked += len;
    }
    return 0;
}

struct noted {
    struct sim_run *run;
    uint64_t ino;
};

static int note_piece(void *ctx, uint64_t off, uint64_t len, uint64_t group, uint64_t goff, uint32_t slen)
{
    struct noted *n = ctx;
    struct sfs_place places[24];
    char where[300] = "", resiliency[16] = "inline";
    unsigned count = 0;

    if (group && sfs_pool_places(n->run->pool, group, goff, slen, places, 24, &count, resiliency) < 0)
        count = 0;
    for (unsigned i = 0; i < count && i < 24; i++) {
        size_t used = strlen(where);

        snprintf(where + used, sizeof(where) - used, " %u.%u=%s:%u%s", places[i].column, places[i].copy, places[i].disk[0] ? places[i].disk : "-",
                 places[i].slot, places[i].online ? "" : "(off)");
    }
    sim_note(n->run, "  inode %llu at %llu, %llu bytes: group %llu at %llu, %u stored, %s%s", (unsigned long long)n->ino, (unsigned long long)off,
             (unsigned long long)len, (unsigned long long)group, (unsigned long long)goff, slen, resiliency, where);
    return 0;
}

void sim_note_places(struct sim_actor *a, uint64_t ino)
{
    struct noted n = {.run = a->run, .ino = ino};
    int rc;

    if (!a->run->opt.verbose)
        return;
    rc = sfs_vfs_map(a->space->vfs, ino, note_piece, &n);
    if (rc < 0)
        sim_note(a->run, "  inode %llu can't be mapped: %s", (unsigned long long)ino, strerror(-rc));
}

int sim_match_file(struct sim_actor *a, uint64_t ino, const struct sim_content *c, uint64_t size, struct sim_match *m)
{
    struct sfs_file *f = NULL;
    uint8_t *buf;
    int rc;

    if (!size_allowed(c, m, size)) {
        snprintf(m->why, sizeof(m->why), "size %llu; newest version %llu bytes, oldest allowed %llu bytes", (unsigned long long)size,
                 (unsigned long long)sim_content_size(c), (unsigned long long)c->versions[first_allowed(c, m)].size);
        return -1;
    }
    rc = sfs_vfs_open_file(a->space->vfs, ino, O_RDONLY, &f);
    if (rc < 0) {
        snprintf(m->why, sizeof(m->why), "opening it: %s", strerror(-rc));
        return -1;
    }
    buf = malloc(CHUNK);
    SFS_ASSERT(buf);
    rc = match_contents(a, f, c, size, buf, m);
    free(buf);
    sfs_vfs_release(f);
    a->run->stats.files_checked++;
    return rc;
}
