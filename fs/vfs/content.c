/* The bytes of a file: reading them from where they are (I2), and changing them in memory. */
#include "fs/vfs/vfs_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define MAKE_ROOM_TRIES 4u
#define MAKE_ROOM_WAIT_NS 1000000ull

/* --- reading -------------------------------------------------------------------------------------------- */

/* What must be read from disks, gathered under the inode's lock. */
struct gather {
    struct sfs_read *v;
    unsigned n, cap;
};

static int gather_piece(struct gather *g, const struct sfs_extent *e, uint32_t from, uint32_t len,
                        uint8_t *out)
{
    if (g->n == g->cap) {
        unsigned cap = g->cap ? g->cap * 2 : 8;
        struct sfs_read *v = realloc(g->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        g->v = v;
        g->cap = cap;
    }
    g->v[g->n] = (struct sfs_read){.extent = *e, .from = from, .len = len, .out = out};
    sfs_stored_ref(e->stored);
    g->n++;
    return 0;
}

static void gather_free(struct gather *g, struct sfs_data *d)
{
    for (unsigned k = 0; k < g->n; k++)
        sfs_stored_unref(d, g->v[k].extent.stored);
    free(g->v);
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* [pos, end) from the inline contents or the map; out is where byte pos goes. */
static int from_map(struct sfs_inode *i, uint64_t pos, uint64_t end, uint8_t *out, struct gather *g)
{
    if (pos < i->inline_len) {
        size_t n = (size_t)(min64(end, i->inline_len) - pos);
        memcpy(out, i->inline_data + pos, n);
        out += n;
        pos += n;
    }
    for (struct sfs_map_node *n = sfs_map_find(&i->map, pos); pos < end; n = sfs_map_next(n)) {
        if (!n || n->e.off >= end) {
            memset(out, 0, (size_t)(end - pos));
            return 0;
        }
        if (n->e.off > pos) {
            memset(out, 0, (size_t)(n->e.off - pos));
            out += n->e.off - pos;
            pos = n->e.off;
        }
        uint32_t len = (uint32_t)(min64(end, sfs_map_end(n)) - pos);
        int rc = gather_piece(g, &n->e, (uint32_t)(pos - n->e.off), len, out);
        if (rc)
            return rc;
        out += len;
        pos += len;
    }
    return 0;
}

/* The first run that overlaps [pos, end). */
static struct sfs_inode_run *run_next(struct sfs_inode *i, uint64_t pos, uint64_t end)
{
    struct sfs_inode_run *r, *best = NULL;

    TAILQ_FOREACH(r, &i->runs, link)
        if (r->off < end && r->off + (uint64_t)r->nblocks * SFS_BLOCK > pos && (!best || r->off < best->off))
            best = r;
    return best;
}

static int from_runs(struct sfs_inode *i, uint64_t pos, uint64_t end, uint8_t *out, struct gather *g)
{
    struct sfs_inode_run *r;

    while (pos < end && (r = run_next(i, pos, end))) {
        if (r->off > pos) {
            int rc = from_map(i, pos, r->off, out, g);
            if (rc)
                return rc;
            out += r->off - pos;
            pos = r->off;
        }
        size_t n = (size_t)(min64(end, r->off + (uint64_t)r->nblocks * SFS_BLOCK) - pos);
        memcpy(out, r->buf->data + (pos - r->off), n);
        out += n;
        pos += n;
    }
    return pos < end ? from_map(i, pos, end, out, g) : 0;
}

static int from_dirty(struct sfs_inode *i, uint64_t pos, uint64_t end, uint8_t *out, struct gather *g)
{
    uint64_t off;
    uint8_t *data;

    while (pos < end && sfs_dirty_next(&i->dirty, pos, end, &off, &data)) {
        if (off > pos) {
            int rc = from_runs(i, pos, off, out, g);
            if (rc)
                return rc;
            out += off - pos;
            pos = off;
        }
        size_t n = (size_t)(min64(end, off + SFS_BLOCK) - pos);
        memcpy(out, data + (pos - off), n);
        out += n;
        pos += n;
    }
    return pos < end ? from_runs(i, pos, end, out, g) : 0;
}

/* Reads [off, off + *len), *len cut to what lies before the end when clip is set. */
static int read_content(struct sfs_inode *i, uint64_t off, size_t *len, void *out, bool clip, bool accessed)
{
    struct sfs_data *d = i->vfs->data;
    struct gather g = {0};
    uint64_t token = sfs_quiesce_enter(sfs_data_quiesce(d));
    int rc;

    sfs_mutex_lock(&i->lock);
    rc = sfs_inode_load_data(i);
    if (!rc && clip)
        *len = off >= i->row.size ? 0 : (size_t)min64(*len, i->row.size - off);
    if (!rc && *len)
        rc = from_dirty(i, off, off + *len, out, &g);
    if (!rc && accessed)
        sfs_inode_accessed(i);
    sfs_mutex_unlock(&i->lock);
    if (!rc && g.n && sfs_data_read(d, g.v, g.n)) {
        for (unsigned k = 0; k < g.n && !rc; k++)
            rc = g.v[k].result;
        if (!rc)
            rc = -EIO;
    }
    sfs_quiesce_exit(sfs_data_quiesce(d), token);
    gather_free(&g, d);
    return rc;
}

int sfs_inode_read(struct sfs_inode *i, uint64_t off, size_t len, void *out)
{
    return read_content(i, off, &len, out, false, false);
}

int sfs_vfs_read(struct sfs_file *f, void *out, size_t len, uint64_t off, size_t *n)
{
    *n = 0;
    if (len == 0 || off >= SFS_OFFSET_MAX)
        return 0;
    if (len > SFS_OFFSET_MAX - off)
        len = (size_t)(SFS_OFFSET_MAX - off);
    int rc = read_content(f->inode, off, &len, out, true, !(f->flags & O_NOATIME));
    if (!rc)
        *n = len;
    return rc;
}

/* --- writing -------------------------------------------------------------------------------------------- */

static uint64_t block_down(uint64_t off)
{
    return off / SFS_BLOCK * SFS_BLOCK;
}

static uint64_t block_up(uint64_t off)
{
    return block_down(off + SFS_BLOCK - 1);
}

/* Old contents of the first and the last block of a write, where it covers them only in part. */
struct edges {
    uint64_t off[2];
    bool filled[2];
    uint8_t *data;           /* two blocks */
};

/* Does [from, to) leave bytes of the block at b as they were, that may be other than zeros? */
static bool needs_old(struct sfs_inode *i, uint64_t b, uint64_t from, uint64_t to)
{
    uint64_t end = min64(b + SFS_BLOCK, i->row.size);

    return b < i->row.size && (from > b || to < end) && !sfs_dirty_get(&i->dirty, b);
}

static int read_edges(struct sfs_inode *i, uint64_t from, uint64_t to, struct edges *e)
{
    uint64_t first = block_down(from), last = block_down(to - 1);
    bool want[2] = {needs_old(i, first, from, to), last != first && needs_old(i, last, from, to)};
    int rc = 0;

    *e = (struct edges){.off = {first, last}};
    if (!want[0] && !want[1])
        return 0;
    e->data = malloc(2 * SFS_BLOCK);
    if (!e->data)
        return -ENOMEM;
    sfs_mutex_unlock(&i->lock); /* the contents stay: we are the one who may change them */
    for (unsigned k = 0; k < 2 && !rc; k++) {
        if (want[k])
            rc = sfs_inode_read(i, e->off[k], SFS_BLOCK, e->data + k * SFS_BLOCK);
        e->filled[k] = want[k];
    }
    sfs_mutex_lock(&i->lock);
    return rc;
}

/* Is all there that a write to [from, to) needs? */
static bool edges_hold(struct sfs_inode *i, uint64_t from, uint64_t to, const struct edges *e)
{
    uint64_t first = block_down(from), last = block_down(to - 1);

    if (needs_old(i, first, from, to) && !(e->filled[0] && e->off[0] == first))
        return false;
    return last == first || !needs_old(i, last, from, to) || (e->filled[1] && e->off[1] == last);
}

static bool is_stored(struct sfs_inode *i, uint64_t b)
{
    return sfs_dirty_is_writing(&i->dirty, b) || sfs_map_covers_any(&i->map, b, b + SFS_BLOCK);
}

/* Reserves what the blocks of [from, to) still lack. */
static int reserve_once(struct sfs_inode *i, uint64_t from, uint64_t to, uint64_t *reserved)
{
    struct sfs_volume *v = i->vfs->volume;
    uint64_t fresh = 0, stored = 0;
    int rc;

    for (uint64_t b = block_down(from); b < to; b += SFS_BLOCK) {
        if (sfs_dirty_get(&i->dirty, b))
            continue;
        if (is_stored(i, b))
            stored++;
        else
            fresh++;
    }
    *reserved = fresh + stored;
    rc = fresh ? sfs_volume_reserve(v, fresh * SFS_BLOCK, false) : 0;
    if (!rc && stored) {
        rc = sfs_volume_reserve(v, stored * SFS_BLOCK, true);
        if (rc && fresh)
            sfs_volume_unreserve(v, fresh * SFS_BLOCK);
    }
    return rc;
}

/* The same, but when there is no room: makes some, once, then tries with less. *to comes back lowered. */
static int reserve(struct sfs_inode *i, uint64_t from, uint64_t *to, bool *made_room, uint64_t *reserved)
{
    int rc = reserve_once(i, from, *to, reserved);

    if (rc == -ENOSPC && i->dirty.nwriting) { /* what is being written counts twice until it is there */
        sfs_inode_wait_runs(i, 0, UINT64_MAX);
        rc = reserve_once(i, from, *to, reserved);
    }
    /* Freed space comes back with a commit, once nobody reads there any more: shortly after. */
    for (unsigned tries = 0; rc == -ENOSPC && !*made_room; tries++) {
        *made_room = tries + 1 == MAKE_ROOM_TRIES;
        sfs_mutex_unlock(&i->lock);
        if (tries)
            sfs_env_sleep_ns(i->vfs->env, MAKE_ROOM_WAIT_NS << tries);
        sfs_vfs_make_room(i->vfs, *made_room);
        sfs_mutex_lock(&i->lock);
        rc = reserve_once(i, from, *to, reserved);
    }
    while (rc == -ENOSPC && block_down(*to - 1) > block_down(from)) {
        uint64_t blocks = (block_up(*to) - block_down(from)) / SFS_BLOCK;
        *to = block_down(from) + blocks / 2 * SFS_BLOCK;
        rc = reserve_once(i, from, *to, reserved);
    }
    return rc;
}

static int write_block(struct sfs_inode *i, uint64_t b, uint64_t from, uint64_t to, const uint8_t *data,
                       uint64_t stamp, const struct edges *e, bool *made)
{
    uint8_t *p = sfs_dirty_add(&i->dirty, b, stamp, is_stored(i, b), made);

    if (!p)
        return -ENOMEM;
    if (*made && (from > b || to < b + SFS_BLOCK)) {
        unsigned k = b == e->off[0] ? 0 : 1;
        if (e->filled[k])
            memcpy(p, e->data + k * SFS_BLOCK, SFS_BLOCK);
        else
            memset(p, 0, SFS_BLOCK);
    }
    uint64_t start = from > b ? from : b;
    memcpy(p + (start - b), data + (start - from), (size_t)(min64(to, b + SFS_BLOCK) - start));
    return 0;
}

/* A write that lies within one chunk. */
static int write_part(struct sfs_inode *i, const uint8_t *data, size_t len, uint64_t from, bool *made_room,
                      size_t *done)
{
    struct edges e = {0};
    uint64_t to = from + len, end, reserved = 0, used = 0, b;
    int rc;

    *done = 0;
    for (;;) {
        rc = read_edges(i, from, to, &e);
        if (rc)
            goto out;
        end = to;
        rc = reserve(i, from, &end, made_room, &reserved);
        if (rc)
            goto out;
        if (edges_hold(i, from, end, &e))
            break;
        /* While the lock was dropped, write-back took an edge that was dirty: its contents must be read after
         * all. */
        sfs_volume_unreserve(i->vfs->volume, reserved * SFS_BLOCK);
        free(e.data);
    }
    uint64_t stamp = __atomic_add_fetch(&i->vfs->stamp, 1, __ATOMIC_RELAXED);
    for (b = block_down(from); b < end && !rc; b += SFS_BLOCK) {
        bool made = false;
        rc = write_block(i, b, from, end, data, stamp, &e, &made);
        if (rc)
            break;
        used += made;
    }
    if (b > from)
        *done = (size_t)(min64(b, end) - from);
    sfs_writeback_account(i, (int64_t)reserved);
    if (used != reserved) /* out of memory on the way, or a block came back from a write that failed */
        sfs_writeback_account(i, (int64_t)used - (int64_t)reserved);
    if (*done && from + *done > i->row.size)
        i->row.size = from + *done;
out:
    free(e.data);
    return *done ? 0 : rc;
}

int sfs_inode_write(struct sfs_inode *i, const void *data, size_t len, uint64_t off, size_t *n)
{
    const uint8_t *p = data;
    bool made_room = false;
    int rc = 0;

    *n = 0;
    if (i->dirty.ndirty == 0 && i->dirty.nwriting == 0)
        i->base_size = i->row.size; /* all of it is stored */
    if (off / SFS_CHUNK != (off + len - 1) / SFS_CHUNK) { /* what cannot be read fails the whole, not its end */
        struct edges e;
        rc = read_edges(i, off, off + len, &e);
        free(e.data);
    }
    while (!rc && *n < len) {
        size_t done, part = (size_t)min64(len - *n, SFS_CHUNK - (off + *n) % SFS_CHUNK);
        rc = write_part(i, p + *n, part, off + *n, &made_room, &done);
        *n += done;
        if (done < part)
            break;
    }
    if (*n == 0)
        return rc;
    sfs_inode_touch(i, true);
    sfs_writeback_hint(i);
    return 0;
}

/* --- taking away ---------------------------------------------------------------------------------------- */

/* Zeros in [from, to) of dirty blocks that aren't inside wholly. */
static void zero_dirty_edge(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    uint64_t b = block_down(from);
    uint8_t *p = sfs_dirty_get(&i->dirty, b);

    if (p)
        memset(p + (from - b), 0, (size_t)(min64(to, b + SFS_BLOCK) - from));
}

/* Contents of [from, to) become zeros in every layer. */
static int discard(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    uint64_t cut_from = from, cut_to = to;
    int rc;

    sfs_inode_wait_runs(i, from, to);
    rc = sfs_map_prepare(&i->map, 0);
    if (rc)
        return rc;
    if (from % SFS_BLOCK)
        zero_dirty_edge(i, from, to);
    if (to % SFS_BLOCK && to != SFS_OFFSET_MAX && block_down(to) >= from)
        zero_dirty_edge(i, block_down(to), to);
    uint64_t first = block_up(from), end = to == SFS_OFFSET_MAX ? UINT64_MAX : block_down(to);
    if (first < end)
        sfs_writeback_account(i, -(int64_t)sfs_dirty_drop(&i->dirty, first, end));
    /* What is stored of a block that is dirty goes when the dirty one is stored: cut now, a crash would show the old
     * block with the new hole in it, without the writes between. Beyond the end of the file nothing may stay. */
    if (to != SFS_OFFSET_MAX && from % SFS_BLOCK && sfs_dirty_get(&i->dirty, block_down(from)))
        cut_from = block_up(from);
    if (to != SFS_OFFSET_MAX && to % SFS_BLOCK && sfs_dirty_get(&i->dirty, block_down(to)))
        cut_to = block_down(to);
    if (cut_from < cut_to)
        sfs_map_punch(&i->map, cut_from, cut_to);
    if (i->inline_len > from) {
        memset(i->inline_data + from, 0, (size_t)(min64(to, i->inline_len) - from));
        i->inline_changed = true;
    }
    return 0;
}

int sfs_inode_truncate(struct sfs_inode *i, uint64_t size)
{
    if (size > SFS_OFFSET_MAX)
        return -EFBIG;
    if (size < i->row.size) {
        int rc = discard(i, size, SFS_OFFSET_MAX);
        if (rc)
            return rc;
        if (i->inline_len > size) {
            i->inline_len = (uint32_t)size;
            if (size == 0)
                sfs_inode_drop_inline(i);
        }
        if (i->base_size > size)
            i->base_size = size;
        if (size == 0 && i->catalog_size > 0)
            i->emptied = true;
    }
    i->row.size = size;
    sfs_inode_touch(i, true);
    return 0;
}

int sfs_inode_punch(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    int rc = from < to ? discard(i, from, to) : 0;

    if (!rc)
        sfs_inode_touch(i, true);
    return rc;
}

/* --- where data and holes are --------------------------------------------------------------------------- */

/* The first stretch with contents that ends beyond off: [*from, *to); false: none. */
static bool next_stretch(struct sfs_inode *i, uint64_t off, uint64_t *from, uint64_t *to)
{
    uint64_t best = UINT64_MAX, end = 0, b;
    struct sfs_map_node *n = sfs_map_find(&i->map, off);

    if (n) {
        best = n->e.off;
        end = sfs_map_end(n);
    }
    b = sfs_dirty_lowest(&i->dirty, off);
    if (b != UINT64_MAX && (b < best || (b <= off && b + SFS_BLOCK > end))) {
        best = b;
        end = b + SFS_BLOCK;
    }
    if (i->inline_len > off) {
        best = 0;
        end = i->inline_len;
    }
    *from = best;
    *to = end;
    return best != UINT64_MAX;
}

uint64_t sfs_inode_next_data(struct sfs_inode *i, uint64_t off)
{
    uint64_t from, to;

    if (off >= i->row.size || !next_stretch(i, off, &from, &to) || from >= i->row.size)
        return i->row.size;
    return from > off ? from : off;
}

uint64_t sfs_inode_next_hole(struct sfs_inode *i, uint64_t off)
{
    uint64_t from, to;

    while (off < i->row.size && next_stretch(i, off, &from, &to) && from <= off)
        off = to;
    return min64(off, i->row.size);
}
