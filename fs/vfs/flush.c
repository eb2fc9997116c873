/* Write-back: dirty data of all inodes, from memory to the volume.
 *
 * A run is a stretch of dirty blocks of one chunk of one inode (at most 1 MiB). Whoever writes it takes it
 * under the inode's lock (its blocks change from dirty to being written, their bytes move to the run's
 * buffer), stores it without any lock, and then, under the lock, puts the extents into the map. Several runs
 * of one inode may be under way at once, by the threads here and by those who wait for a flush.
 *
 * Invariants
 *   (W1) no block is in two runs. So what lands in the map last is the newest.
 *   (W2) contents are readable at every moment: dirty, in a run, or in the map (I2).
 *   (W3) truncating and punching wait for the runs that they overlap: a run never brings back what was taken
 *        away. Runs of a dead inode land nowhere.
 *   (W4) a run that failed makes its blocks dirty again, newly stamped, and marks the inode stuck; the error
 *        is kept for everyone who has it open. So nothing is lost while there is memory, a flush tries each
 *        block once, and the threads leave the inode alone until the next commit interval.
 *   (W5) dirty_blocks of an inode counts blocks dirty and being written, and is what it has reserved (I3).
 *
 * When is what written? Chunks that are full: at once. Everything: when it is asked for (fsync, sync, the
 * commit timer), and, oldest inode first, while more than half of the limit is dirty. */
#include "fs/vfs/vfs_impl.h"

#include <stdlib.h>
#include <string.h>

#define THROTTLE_POLL_NS 1000000000ull
#define RETRY_NS 100000000ull
#define HELP_BLOCKS 512u /* a flush of more than this wakes helpers */

/* --- errors --------------------------------------------------------------------------------------------- */

void sfs_inode_set_error(struct sfs_inode *i, int error)
{
    struct sfs_vfs *vfs = i->vfs;

    sfs_mutex_lock(&vfs->error_lock);
    i->error = vfs->error = error;
    i->error_seq++;
    i->error_reported = false;
    vfs->error_seq++;
    sfs_mutex_unlock(&vfs->error_lock);
}

int sfs_inode_take_error(struct sfs_inode *i, uint64_t *seen)
{
    struct sfs_vfs *vfs = i->vfs;
    int rc = 0;

    sfs_mutex_lock(&vfs->error_lock);
    if (*seen != i->error_seq) {
        *seen = i->error_seq;
        i->error_reported = true;
        rc = i->error;
    }
    sfs_mutex_unlock(&vfs->error_lock);
    return rc;
}

/* An error that nobody was told of is told to the next who opens the file. */
uint64_t sfs_inode_error_mark(struct sfs_inode *i)
{
    struct sfs_vfs *vfs = i->vfs;
    uint64_t mark;

    sfs_mutex_lock(&vfs->error_lock);
    mark = i->error_seq;
    if (mark && !i->error_reported)
        mark--;
    sfs_mutex_unlock(&vfs->error_lock);
    return mark;
}

static uint64_t error_count(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->vfs->error_lock);
    uint64_t n = i->error_seq;
    sfs_mutex_unlock(&i->vfs->error_lock);
    return n;
}

static uint64_t stripe_chunks_bytes(struct sfs_vfs *vfs);

/* --- accounting ----------------------------------------------------------------------------------------- */

static void set_stuck(struct sfs_inode *i, bool stuck)
{
    struct sfs_vfs *vfs = i->vfs;

    if (i->stuck == stuck)
        return;
    i->stuck = stuck;
    if (stuck)
        vfs->nstuck++;
    else
        vfs->nstuck--;
    sfs_cond_broadcast(&vfs->room); /* writers look at it */
}

void sfs_writeback_account(struct sfs_inode *i, int64_t blocks)
{
    struct sfs_vfs *vfs = i->vfs;

    if (blocks == 0)
        return;
    sfs_mutex_lock(&vfs->table_lock);
    if (i->dirty_blocks == 0) {
        i->dirty_since_ns = sfs_env_mono_ns(vfs->env);
        sfs_inode_list_add(&vfs->dirty, &i->dirty_link);
        vfs->ndirty_inodes++;
    }
    i->dirty_blocks += (uint64_t)blocks;
    vfs->dirty_bytes += (uint64_t)(blocks * (int64_t)SFS_BLOCK);
    SFS_ASSERT((int64_t)i->dirty_blocks >= 0 && (int64_t)vfs->dirty_bytes >= 0);
    if (i->dirty_blocks == 0) {
        set_stuck(i, false);
        sfs_inode_list_remove(&vfs->dirty, &i->dirty_link);
        vfs->ndirty_inodes--;
    }
    if (blocks < 0)
        sfs_cond_broadcast(&vfs->room);
    else if (vfs->dirty_bytes > vfs->dirty_limit_bytes / 2)
        sfs_cond_signal(&vfs->work);
    sfs_mutex_unlock(&vfs->table_lock);
    if (blocks < 0)
        sfs_volume_unreserve(vfs->volume, (uint64_t)(-blocks * (int64_t)SFS_BLOCK));
}

void sfs_writeback_hint(struct sfs_inode *i)
{
    struct sfs_vfs *vfs = i->vfs;

    if (i->dirty.nfull == 0 || (uint64_t)i->dirty.nfull * SFS_CHUNK < stripe_chunks_bytes(vfs))
        return;
    sfs_mutex_lock(&vfs->table_lock);
    if (!i->stuck) {
        sfs_inode_list_add(&vfs->urgent, &i->urgent);
        sfs_cond_signal(&vfs->work);
    }
    sfs_mutex_unlock(&vfs->table_lock);
}

int sfs_writeback_throttle(struct sfs_vfs *vfs, size_t len)
{
    int rc = 0;

    sfs_mutex_lock(&vfs->table_lock);
    while (vfs->dirty_bytes > 0 && vfs->dirty_bytes + len > vfs->dirty_limit_bytes) {
        sfs_cond_broadcast(&vfs->work);
        if (vfs->nstuck > 0 && vfs->nstuck == vfs->ndirty_inodes) {
            sfs_mutex_lock(&vfs->error_lock);
            rc = vfs->error;
            sfs_mutex_unlock(&vfs->error_lock);
            break;
        }
        (void)sfs_cond_wait_until(&vfs->room, &vfs->table_lock, sfs_env_mono_ns(vfs->env) + THROTTLE_POLL_NS);
        sfs_mutex_unlock(&vfs->table_lock);
        rc = sfs_vfs_writable(vfs);
        sfs_mutex_lock(&vfs->table_lock);
        if (rc)
            break;
    }
    sfs_mutex_unlock(&vfs->table_lock);
    return rc;
}

/* --- runs ----------------------------------------------------------------------------------------------- */

bool sfs_flush_inline(struct sfs_inode *i)
{
    uint64_t size = i->row.size;
    uint8_t *block, *copy;

    if (size == 0 || size > SFS_INLINE_MAX || i->map.npieces || i->dirty.nwriting || i->dirty.ndirty != 1 ||
        i->no_inline)
        return false;
    block = sfs_dirty_get(&i->dirty, 0);
    if (!block || sfs_vfs_catalog_room(i->vfs, size))
        return false;
    copy = malloc(size);
    if (!copy)
        return false;
    memcpy(copy, block, size);
    sfs_inode_drop_inline(i);
    i->inline_data = copy;
    i->inline_len = (uint32_t)size;
    i->inline_changed = true;
    sfs_writeback_account(i, -(int64_t)sfs_dirty_drop(&i->dirty, 0, SFS_BLOCK));
    sfs_inode_mark_pending(i);
    return true;
}

/* Lock held. */
static int take_run(struct sfs_inode *i, uint64_t off, unsigned nblocks, struct sfs_inode_run **out)
{
    struct sfs_inode_run *r = malloc(sizeof(*r) + nblocks * sizeof(struct sfs_extent));

    if (!r)
        return -ENOMEM;
    r->buf = sfs_buf_new((size_t)nblocks * SFS_BLOCK);
    if (!r->buf) {
        free(r);
        return -ENOMEM;
    }
    r->inode = i;
    r->off = off;
    r->nblocks = nblocks;
    r->nextents = 0;
    r->stamp = sfs_dirty_take(&i->dirty, off, nblocks, r->buf->data);
    SFS_ASSERT(off < i->row.size); /* what lies beyond the end was dropped with it */
    uint64_t len = i->row.size - off;
    r->len = len < (uint64_t)nblocks * SFS_BLOCK ? (uint32_t)len : nblocks * SFS_BLOCK;
    TAILQ_INSERT_TAIL(&i->runs, r, link);
    *out = r;
    return 0;
}

static void drop_extents(struct sfs_inode *i, struct sfs_inode_run *r)
{
    for (unsigned k = 0; k < r->nextents; k++)
        sfs_stored_unref(i->vfs->data, r->extents[k].stored);
}

/* Lock held: the run has been written. */
static void land_run(struct sfs_inode *i, struct sfs_inode_run *r)
{
    struct sfs_vfs *vfs = i->vfs;

    sfs_dirty_written(&i->dirty, r->off, r->nblocks);
    if (i->dead) {
        drop_extents(i, r);
    } else {
        if (r->off == 0)
            sfs_inode_drop_inline(i); /* I1 */
        sfs_map_punch(&i->map, r->off, r->off + r->len);
        for (unsigned k = 0; k < r->nextents; k++) {
            r->extents[k].off += r->off;
            sfs_map_insert(&i->map, &r->extents[k], false);
        }
        sfs_inode_mark_pending(i);
        if (__atomic_add_fetch(&vfs->uncollected, r->nextents, __ATOMIC_RELAXED) >= SFS_COMMIT_VOLUME_PIECES)
            sfs_commit_kick(vfs->data);
    }
    sfs_writeback_account(i, -(int64_t)r->nblocks);
}

/* Lock held: W4. */
static void fail_run(struct sfs_inode *i, struct sfs_inode_run *r, int error)
{
    struct sfs_vfs *vfs = i->vfs;
    unsigned restored = 0;

    if (i->dead) {
        sfs_dirty_written(&i->dirty, r->off, r->nblocks);
    } else {
        uint64_t stamp = __atomic_add_fetch(&vfs->stamp, 1, __ATOMIC_RELAXED);
        restored = sfs_dirty_restore(&i->dirty, r->off, r->nblocks, r->buf->data, stamp);
        sfs_inode_set_error(i, error);
    }
    sfs_writeback_account(i, (int64_t)restored - (int64_t)r->nblocks);
    sfs_mutex_lock(&vfs->table_lock);
    if (i->dirty_blocks)
        set_stuck(i, true);
    sfs_mutex_unlock(&vfs->table_lock);
}

/* --- batches: runs that are stored together ---------------------------------------------------------------- */

#define BATCH_RUNS 1024u
#define BATCH_BYTES (4u << 20)      /* about so much at once … */
#define BATCH_MAX_BYTES (16u << 20) /* … or more, where that is what fills stripes */

struct batch {
    struct sfs_inode_run **v;
    unsigned n, cap;
    uint64_t bytes, want;    /* want: enough */
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* As many whole chunks as make whole stripes; so a stream leaves nothing over that would have to land. */
static uint64_t stripe_chunks_bytes(struct sfs_vfs *vfs)
{
    uint64_t unit = sfs_volume_write_unit_bytes(vfs->volume), both;

    if (unit == 0)
        return SFS_CHUNK;
    both = unit / gcd(unit, SFS_CHUNK) * SFS_CHUNK;
    return both <= BATCH_MAX_BYTES ? both : BATCH_MAX_BYTES;
}

static void batch_init(struct batch *b, struct sfs_vfs *vfs)
{
    uint64_t unit = stripe_chunks_bytes(vfs);

    *b = (struct batch){.want = unit >= BATCH_BYTES ? unit : BATCH_BYTES / unit * unit};
}

static bool batch_full(const struct batch *b)
{
    return b->bytes >= b->want || b->n >= BATCH_RUNS;
}

static int batch_add(struct batch *b, struct sfs_inode *i, uint64_t off, unsigned nblocks)
{
    int rc;

    if (b->n == b->cap) {
        unsigned cap = b->cap ? b->cap * 2 : 8;
        struct sfs_inode_run **v = realloc(b->v, cap * sizeof(struct sfs_inode_run *));
        if (!v)
            return -ENOMEM;
        b->v = v;
        b->cap = cap;
    }
    rc = take_run(i, off, nblocks, &b->v[b->n]);
    if (rc)
        return rc;
    b->bytes += (uint64_t)nblocks * SFS_BLOCK;
    b->n++;
    return 0;
}

/* Inode's lock held: takes runs with a stamp up to limit until the batch is full. also_full: then full chunks, if
 * together they make whole stripes. 1: something was taken, or went into the catalog; 0: there was nothing; else an
 * error, which the inode has. */
static int batch_take(struct batch *b, struct sfs_inode *i, uint64_t limit, bool also_full)
{
    uint64_t off;
    unsigned nblocks;
    int rc, any = 0;

    if (i->dead)
        return 0;
    while (!batch_full(b) && sfs_dirty_pick(&i->dirty, false, limit, &off, &nblocks)) {
        if (sfs_flush_inline(i))
            return 1;
        rc = batch_add(b, i, off, nblocks);
        if (rc) {
            sfs_inode_set_error(i, rc);
            return any ? any : rc;
        }
        any = 1;
    }
    if (any || !also_full || (uint64_t)i->dirty.nfull * SFS_CHUNK < stripe_chunks_bytes(i->vfs))
        return any;
    while (!batch_full(b) && sfs_dirty_pick(&i->dirty, true, UINT64_MAX, &off, &nblocks)) {
        rc = batch_add(b, i, off, nblocks);
        if (rc) {
            sfs_inode_set_error(i, rc);
            return any ? any : rc;
        }
        any = 1;
    }
    return any;
}

static int land_stored(struct sfs_inode *i, struct sfs_inode_run *r, int rc)
{
    if (!rc && !i->dead) {
        rc = sfs_map_prepare(&i->map, r->nextents);
        if (rc) {
            drop_extents(i, r);
            r->nextents = 0;
        }
    }
    TAILQ_REMOVE(&i->runs, r, link);
    if (rc)
        fail_run(i, r, rc);
    else
        land_run(i, r);
    sfs_cond_broadcast(&i->changed);
    return rc;
}

/* No lock held: stores all runs of the batch. The batch is empty then. */
static int batch_store(struct batch *b, struct sfs_vfs *vfs)
{
    struct sfs_write_item *items = calloc(b->n + 1, sizeof(*items));
    int first = 0;

    for (unsigned k = 0; items && k < b->n; k++)
        items[k] = (struct sfs_write_item){
            .buf = b->v[k]->buf, .len = b->v[k]->len, .out = b->v[k]->extents, .max = b->v[k]->nblocks};
    if (items && b->n)
        (void)sfs_data_write_vec(vfs->volume, items, b->n);
    for (unsigned k = 0; k < b->n;) {
        struct sfs_inode *i = b->v[k]->inode;

        sfs_mutex_lock(&i->lock);
        for (; k < b->n && b->v[k]->inode == i; k++) {
            struct sfs_inode_run *r = b->v[k];

            r->nextents = items ? items[k].n : 0;
            int rc = land_stored(i, r, items ? items[k].result : -ENOMEM);
            if (!first)
                first = rc;
            sfs_buf_unref(r->buf);
            free(r);
        }
        sfs_mutex_unlock(&i->lock);
    }
    free(items);
    b->n = 0;
    b->bytes = 0;
    return first;
}

/* Lock held, dropped meanwhile: writes runs of what has a stamp up to limit, a batch of them; also_full: or else full
 * chunks. 1: done; 0: there is none to take; else an error, which the inode has. */
static int flush_step(struct sfs_inode *i, uint64_t limit, bool also_full)
{
    struct batch b;
    int rc, stored;

    batch_init(&b, i->vfs);
    rc = batch_take(&b, i, limit, also_full);
    if (b.n) {
        sfs_mutex_unlock(&i->lock);
        stored = batch_store(&b, i->vfs);
        sfs_mutex_lock(&i->lock);
        if (stored)
            rc = stored;
    }
    free(b.v);
    return rc;
}

/* --- flushing on demand --------------------------------------------------------------------------------- */

static bool run_from_before(struct sfs_inode *i, uint64_t limit)
{
    struct sfs_inode_run *r;

    TAILQ_FOREACH(r, &i->runs, link)
        if (r->stamp <= limit)
            return true;
    return false;
}

/* Lets the threads help with all that has a stamp up to limit. */
static void want(struct sfs_inode *i, uint64_t limit)
{
    struct sfs_vfs *vfs = i->vfs;

    sfs_mutex_lock(&vfs->table_lock);
    if (limit > i->want_limit)
        i->want_limit = limit;
    if (i->dirty_blocks) {
        sfs_inode_list_add(&vfs->urgent, &i->urgent);
        if (i->dirty_blocks >= HELP_BLOCKS)
            sfs_cond_broadcast(&vfs->work);
        else
            sfs_cond_signal(&vfs->work);
    }
    sfs_mutex_unlock(&vfs->table_lock);
}

int sfs_flush_inode(struct sfs_inode *i)
{
    uint64_t errors = error_count(i), limit;
    int rc = 0, step;

    sfs_mutex_lock(&i->lock);
    limit = __atomic_load_n(&i->vfs->stamp, __ATOMIC_RELAXED);
    if (i->dirty.ndirty >= HELP_BLOCKS)
        want(i, limit);
    for (;;) {
        step = flush_step(i, limit, false);
        if (step < 0 && !rc)
            rc = step;
        if (step == -ENOMEM && !run_from_before(i, limit))
            break;
        if (step > 0)
            continue;
        if (!run_from_before(i, limit)) {
            if (step == 0)
                break;
            continue;
        }
        sfs_cond_wait(&i->changed, &i->lock);
    }
    sfs_mutex_unlock(&i->lock);
    if (!rc && error_count(i) != errors) { /* a thread that helped met it */
        sfs_mutex_lock(&i->vfs->error_lock);
        rc = i->error;
        sfs_mutex_unlock(&i->vfs->error_lock);
    }
    return rc;
}

/* Small files together, so that what is little in each fills stripes, and goes out in one go. Which is busy is left to its
 * own turn: its owner may hold another's lock, and wait for what is taken here. */
static void flush_small(struct sfs_vfs *vfs, struct sfs_inode **v, size_t n)
{
    struct batch b;

    batch_init(&b, vfs);
    for (size_t k = 0; k < n; k++) {
        struct sfs_inode *i = v[k];

        if (!sfs_mutex_trylock(&i->lock))
            continue;
        if (i->dirty.ndirty < HELP_BLOCKS)
            (void)batch_take(&b, i, __atomic_load_n(&vfs->stamp, __ATOMIC_RELAXED), false);
        sfs_mutex_unlock(&i->lock);
        if (batch_full(&b))
            (void)batch_store(&b, vfs);
    }
    if (b.n)
        (void)batch_store(&b, vfs);
    free(b.v);
}

int sfs_flush_all(struct sfs_vfs *vfs, uint64_t before_ns)
{
    struct sfs_inode_link *k;
    struct sfs_inode **v;
    size_t n = 0, cap;
    bool help = false;
    int rc;

    sfs_mutex_lock(&vfs->table_lock);
    cap = vfs->ndirty_inodes;
    v = cap ? malloc(cap * sizeof(struct sfs_inode *)) : NULL;
    rc = cap && !v ? -ENOMEM : 0;
    TAILQ_FOREACH(k, &vfs->dirty, link) {
        struct sfs_inode *i = k->inode;
        if (!v || i->dirty_since_ns > before_ns)
            continue;
        set_stuck(i, false);
        sfs_inode_hold(i);
        v[n++] = i;
        i->want_limit = __atomic_load_n(&vfs->stamp, __ATOMIC_RELAXED);
        if (i->dirty_blocks < HELP_BLOCKS)
            continue;
        sfs_inode_list_add(&vfs->urgent, &i->urgent);
        help = true;
    }
    if (help)
        sfs_cond_broadcast(&vfs->work);
    sfs_mutex_unlock(&vfs->table_lock);
    flush_small(vfs, v, n);
    while (n > 0) { /* from the other end than the threads */
        n--;
        (void)sfs_flush_inode(v[n]); /* the error stays with the inode */
        sfs_inode_put(v[n]);
    }
    free(v);
    return rc;
}

/* --- threads -------------------------------------------------------------------------------------------- */

/* table_lock held: what to work on: what is asked for; under pressure the oldest. */
static struct sfs_inode *choose(struct sfs_vfs *vfs, bool *pressure)
{
    struct sfs_inode_link *k = TAILQ_FIRST(&vfs->urgent);

    *pressure = false;
    if (k)
        return k->inode;
    if (vfs->dirty_bytes <= vfs->dirty_limit_bytes / 2)
        return NULL;
    *pressure = true;
    TAILQ_FOREACH(k, &vfs->dirty, link)
        if (!k->inode->stuck)
            return k->inode;
    return NULL;
}

/* One step for one inode. False when there was nothing to do. */
static bool work_on(struct sfs_inode *i, bool pressure)
{
    struct sfs_vfs *vfs = i->vfs;
    uint64_t limit;
    int rc;

    sfs_mutex_lock(&i->lock);
    sfs_mutex_lock(&vfs->table_lock);
    limit = pressure ? UINT64_MAX : i->want_limit;
    sfs_mutex_unlock(&vfs->table_lock);
    rc = flush_step(i, limit, true);
    /* With the inode's lock held nobody can have made more to do that was not seen. */
    sfs_mutex_lock(&vfs->table_lock);
    if (pressure && i->dirty_link.on) { /* others have a turn */
        TAILQ_REMOVE(&vfs->dirty, &i->dirty_link, link);
        TAILQ_INSERT_TAIL(&vfs->dirty, &i->dirty_link, link);
    }
    if (rc <= 0) {
        sfs_inode_list_remove(&vfs->urgent, &i->urgent);
    } else if (i->urgent.on) {
        TAILQ_REMOVE(&vfs->urgent, &i->urgent, link);
        TAILQ_INSERT_TAIL(&vfs->urgent, &i->urgent, link);
    }
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_mutex_unlock(&i->lock);
    return rc > 0;
}

static void writer_main(void *arg)
{
    struct sfs_vfs *vfs = arg;
    uint64_t misses = 0;

    sfs_mutex_lock(&vfs->table_lock);
    while (!vfs->stop_writeback) {
        bool pressure;
        struct sfs_inode *i = choose(vfs, &pressure);
        if (!i) {
            sfs_cond_wait(&vfs->work, &vfs->table_lock);
            continue;
        }
        if (pressure && misses > vfs->ndirty_inodes) { /* all that is dirty is being written */
            misses = 0;
            (void)sfs_cond_wait_until(&vfs->work, &vfs->table_lock, sfs_env_mono_ns(vfs->env) + RETRY_NS);
            continue;
        }
        sfs_inode_hold(i);
        sfs_mutex_unlock(&vfs->table_lock);
        if (work_on(i, pressure))
            misses = 0;
        else
            misses++;
        sfs_inode_put(i);
        sfs_mutex_lock(&vfs->table_lock);
    }
    sfs_mutex_unlock(&vfs->table_lock);
}

int sfs_writeback_start(struct sfs_vfs *vfs)
{
    for (unsigned k = 0; k < SFS_WRITEBACK_THREADS; k++) {
        int rc = sfs_thread_start(vfs->env, "sfs-write", writer_main, vfs, &vfs->writers[k]);
        if (rc) {
            sfs_writeback_stop(vfs);
            return rc;
        }
    }
    return 0;
}

void sfs_writeback_stop(struct sfs_vfs *vfs)
{
    sfs_mutex_lock(&vfs->table_lock);
    vfs->stop_writeback = true;
    sfs_cond_broadcast(&vfs->work);
    sfs_mutex_unlock(&vfs->table_lock);
    for (unsigned k = 0; k < SFS_WRITEBACK_THREADS; k++) {
        if (vfs->writers[k])
            sfs_thread_join(vfs->writers[k]);
        vfs->writers[k] = NULL;
    }
}
