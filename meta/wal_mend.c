/* A WAL that is damaged on several stores, each time elsewhere, made whole from all of them.
 *
 * SQLite ends a WAL at its first bad frame: of two replicas, one rotten at frame 10 and one at frame 50, neither would give back frame 51, though each has it. So before recovery
 * looks at the stores, each one's bad frames are replaced by another's good ones. This is the one place that knows SQLite's frames (https://www.sqlite.org/fileformat2.html, section 4):
 * a header of 32 bytes, then frames of 24 + a page; each frame bears the header's salt and a checksum over all that precedes it, so that a frame is right for its place or not at all.
 *
 * Only bytes that a store has are replaced (a WAL that is too short is recovery's business), and only by what the chain of checksums proves: a crash in between leaves a store with
 * more valid frames than it had, all of them from the same WAL. What no store has good ends the WAL, as it does for SQLite: whether it was damaged or never written can't be told. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include "meta/replicas_impl.h"

#define FRAME_HEAD 24u
#define FRAME_BYTES (FRAME_HEAD + SFS_PAGE_BYTES)
#define RUN_FRAMES 64u
#define MAGIC_LE 0x377f0682u /* checksums over little-endian words; + 1: big-endian */

struct chain {
    bool big;
    uint32_t s0, s1;
    uint8_t salt[8];
};

static uint32_t word(const uint8_t *p, bool big)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return big ? be32toh(v) : le32toh(v);
}

static void add(struct chain *c, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i += 8) {
        c->s0 += word(p + i, c->big) + c->s1;
        c->s1 += word(p + i + 4, c->big) + c->s0;
    }
}

static bool begin(struct chain *c, const uint8_t *header)
{
    uint32_t magic = word(header, true);
    if ((magic & ~1u) != MAGIC_LE || word(header + 8, true) != SFS_PAGE_BYTES)
        return false;
    *c = (struct chain){.big = magic & 1};
    memcpy(c->salt, header + 16, sizeof(c->salt));
    add(c, header, 24);
    return word(header + 24, true) == c->s0 && word(header + 28, true) == c->s1;
}

/* Is it the chain's next frame? Then the chain goes on behind it. */
static bool next(struct chain *c, const uint8_t *frame)
{
    struct chain after = *c;
    if (memcmp(frame + 8, c->salt, sizeof(c->salt)) != 0)
        return false;
    add(&after, frame, 8);
    add(&after, frame + FRAME_HEAD, SFS_PAGE_BYTES);
    if (word(frame + 16, true) != after.s0 || word(frame + 20, true) != after.s1)
        return false;
    *c = after;
    return true;
}

/* The frame that belongs there, from any store but the one it is for. */
static bool find(const struct sfs_store *const *from, unsigned n, unsigned self, uint64_t off, struct chain *c, uint8_t *frame)
{
    for (unsigned i = 0; i < n; i++)
        if (i != self && sfs_store_read(from[i], SFS_WAL_FILE, frame, FRAME_BYTES, off) == FRAME_BYTES && next(c, frame))
            return true;
    return false;
}

static bool find_header(const struct sfs_store *const *from, unsigned n, unsigned self, struct chain *c, uint8_t *header)
{
    for (unsigned i = 0; i < n; i++)
        if (i != self && sfs_store_read(from[i], SFS_WAL_FILE, header, SFS_WAL_HEADER_BYTES, 0) == SFS_WAL_HEADER_BYTES && begin(c, header))
            return true;
    return false;
}

int sfs_wal_mend(const struct sfs_store *const *stores, unsigned n, unsigned self, int (*put)(void *ctx, uint64_t off, const void *bytes, size_t len), void *ctx, unsigned *mended)
{
    struct chain c;
    uint8_t *run = malloc((size_t)RUN_FRAMES * FRAME_BYTES), other[FRAME_BYTES];
    *mended = 0;
    if (!run)
        return -ENOMEM;
    int64_t got = sfs_store_read(stores[self], SFS_WAL_FILE, run, SFS_WAL_HEADER_BYTES, 0);
    int rc = got < 0 ? (int)got : 0;
    bool on = got == SFS_WAL_HEADER_BYTES;
    if (on && !begin(&c, run)) {
        on = find_header(stores, n, self, &c, other);
        rc = on ? put(ctx, 0, other, SFS_WAL_HEADER_BYTES) : 0;
        *mended += on;
    }
    for (uint64_t off = SFS_WAL_HEADER_BYTES; on && !rc; off += RUN_FRAMES * FRAME_BYTES) {
        got = sfs_store_read(stores[self], SFS_WAL_FILE, run, (size_t)RUN_FRAMES * FRAME_BYTES, off);
        rc = got < 0 ? (int)got : 0;
        on = got == (int64_t)RUN_FRAMES * FRAME_BYTES;
        for (int64_t at = 0; !rc && at + (int64_t)FRAME_BYTES <= got; at += FRAME_BYTES) {
            if (next(&c, run + at))
                continue;
            if (!find(stores, n, self, off + (uint64_t)at, &c, other)) {
                on = false;
                break;
            }
            rc = put(ctx, off + (uint64_t)at, other, FRAME_BYTES);
            ++*mended;
        }
    }
    free(run);
    return rc;
}
