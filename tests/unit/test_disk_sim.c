/* Sim disks: what a crash leaves, and every fault that tests of the layers above ask for. */
#include "tests/unit/disk_common.h"
#include "fs/disk/sim.h"

#define SLAB (64u << 10)
#define BLOCK 4096u

struct rig {
    struct sfs_env *env;
    struct sfs_sim_world *w;
    struct sfs_disk *d;
    void (*body)(struct rig *);
};

static struct sfs_disk *rig_open(struct rig *r, const char *path)
{
    struct sfs_error err = {0};
    struct sfs_disk_opts opts = {.world = r->w, .workers = 2, .timeout_ns = 1000000000};
    struct sfs_disk *d = NULL;
    cr_assert_eq(sfs_disk_open(r->env, path, &opts, &d, &err), 0, "%s", err.text);
    return d;
}

static void rig_format(struct rig *r, const char *name, uint64_t size_bytes)
{
    struct sfs_error err = {0};
    char path[80];
    snprintf(path, sizeof path, "sim:%s", name);
    cr_assert_eq(sfs_sim_add(r->w, name, size_bytes, SFS_MEDIA_SSD), 0);
    struct sfs_label *l = test_label_new(r->env, name, SLAB);
    cr_assert_eq(sfs_disk_format(r->env, path, r->w, 0, false, l, &err), 0, "%s", err.text);
    cr_assert_eq(l->capacity_slabs, size_bytes / SLAB);
    free(l);
}

static void rig_main(void *arg)
{
    struct rig *r = arg;
    r->w = sfs_sim_world_new(r->env);
    rig_format(r, "a", 4u << 20);
    r->d = rig_open(r, "sim:a");
    for (uint32_t i = 0; i < 8; i++)
        cr_assert_eq(sfs_disk_slab_alloc(r->d, i), 0);
    cr_assert_eq(test_sync(r->d), 0);
    r->body(r);
    sfs_disk_close(r->d);
    sfs_sim_world_free(r->w);
}

static void rig_run(uint64_t seed, void (*body)(struct rig *))
{
    struct rig r = {.env = sfs_env_new_sim(seed), .body = body};
    sfs_sim_run(r.env, rig_main, &r);
    sfs_env_free(r.env);
    sfs_buf_trim_pool();
}

static void reopen(struct rig *r)
{
    sfs_disk_close(r->d);
    sfs_sim_revive(r->w);
    r->d = rig_open(r, "sim:a");
}

/* --- plain use -------------------------------------------------------------------------------- */

static void body_plain(struct rig *r)
{
    cr_assert_eq(test_write(r->d, 1, 5 * BLOCK, 3 * BLOCK, 1), 0);
    cr_assert_eq(test_read_is(r->d, 1, 5 * BLOCK, 3 * BLOCK, 1), 0);
    cr_assert_eq(test_write(r->d, 9, 0, BLOCK, 1), -ENOENT, "a slot that isn't allocated");
    reopen(r);
    cr_assert_eq(test_write(r->d, 64, 0, BLOCK, 1), -EINVAL, "beyond the disk");
    cr_assert_eq(test_write(r->d, 0, SLAB - BLOCK, 2 * BLOCK, 1), -EINVAL, "beyond the slab");
    cr_assert_eq(test_read_is(r->d, 1, 5 * BLOCK, 3 * BLOCK, 1), 0);

    struct sfs_disk_opts opts = {.world = r->w};
    struct sfs_disk *second = NULL;
    cr_assert_eq(sfs_disk_open(r->env, "sim:a", &opts, &second, NULL), -EBUSY);
    cr_assert_eq(sfs_disk_open(r->env, "sim:nowhere", &opts, &second, NULL), -ENOENT);

    char bytes[16];
    cr_assert_eq(sfs_disk_meta_size(r->d, "catalog.db"), -ENOENT);
    cr_assert_eq(sfs_disk_meta_write(r->d, "catalog.db", "hello", 5, 10), 0);
    cr_assert_eq(sfs_disk_meta_size(r->d, "catalog.db"), 15);
    cr_assert_eq(sfs_disk_meta_read(r->d, "catalog.db", bytes, 16, 8), 7);
    cr_assert_arr_eq(bytes, "\0\0hello", 7);
    cr_assert_eq(sfs_disk_meta_read(r->d, "catalog.db", bytes, 16, 99), 0);
    cr_assert_eq(sfs_disk_meta_truncate(r->d, "catalog.db", 12), 0);
    cr_assert_eq(sfs_disk_meta_truncate(r->d, "catalog.db", 15), 0);
    cr_assert_eq(sfs_disk_meta_read(r->d, "catalog.db", bytes, 16, 10), 5);
    cr_assert_arr_eq(bytes, "he\0\0\0", 5, "what was cut off does not come back");
    cr_assert_eq(sfs_disk_meta_delete(r->d, "catalog.db"), 0);
    cr_assert_eq(sfs_disk_meta_delete(r->d, "catalog.db"), 0);
    cr_assert_eq(sfs_disk_meta_size(r->d, "catalog.db"), -ENOENT);
    cr_assert_eq(sfs_disk_meta_write(r->d, "../evil", "x", 1, 0), -EINVAL);
    cr_assert_eq(sfs_disk_check(r->d), 0);
}

Test(disk_sim, plain)
{
    rig_run(1, body_plain);
}

/* --- crashes ---------------------------------------------------------------------------------- */

enum outcome { OLD, NEW, TORN };

static enum outcome block_outcome(struct rig *r, uint32_t slot, uint32_t block, const uint8_t *old,
                                  const uint8_t *new)
{
    uint8_t got[BLOCK];
    cr_assert_eq(sfs_sim_peek(r->w, "a", slot, block * BLOCK, got, BLOCK), 0);
    if (memcmp(got, new, BLOCK) == 0)
        return NEW;
    if (memcmp(got, old, BLOCK) == 0)
        return OLD;
    for (unsigned i = 0; i < BLOCK; i += 512)
        cr_assert(memcmp(got + i, old + i, 512) == 0 || memcmp(got + i, new + i, 512) == 0,
                  "torn by sectors only");
    return TORN;
}

static void body_crash(struct rig *r)
{
    uint8_t *old = malloc(SLAB), *new = malloc(SLAB);
    unsigned seen[3] = {0};
    test_pattern(old, SLAB, 1);
    test_pattern(new, SLAB, 2);
    for (unsigned round = 0; round < 8; round++) {
        cr_assert_eq(test_write(r->d, 2, 0, SLAB, 1), 0);
        cr_assert_eq(test_sync(r->d), 0);
        cr_assert_eq(test_write(r->d, 2, 0, SLAB, 2), 0);
        sfs_sim_crash(r->w, false);
        cr_assert(sfs_sim_crashed(r->w));
        cr_assert_eq(test_write(r->d, 2, 0, SLAB, 2), -ENODEV);
        cr_assert_eq(test_write(r->d, 2, 0, SLAB, 2), -ENODEV);
        cr_assert_eq(sfs_disk_state(r->d), SFS_DISK_GONE);
        cr_assert_eq(sfs_disk_meta_size(r->d, "x"), -ENODEV);
        reopen(r);
        for (unsigned i = 0; i < SLAB / BLOCK; i++)
            seen[block_outcome(r, 2, i, old + i * BLOCK, new + i *BLOCK)]++;
    }
    cr_assert(seen[OLD] > 0 && seen[NEW] > 0 && seen[TORN] > 0, "%u %u %u", seen[OLD], seen[NEW], seen[TORN]);

    /* What is synced survives; so does everything when only the daemon dies. */
    cr_assert_eq(test_write(r->d, 2, 0, SLAB, 2), 0);
    cr_assert_eq(test_sync(r->d), 0);
    sfs_sim_crash(r->w, false);
    reopen(r);
    cr_assert_eq(test_read_is(r->d, 2, 0, SLAB, 2), 0);
    cr_assert_eq(test_write(r->d, 2, 0, SLAB, 1), 0);
    sfs_sim_crash(r->w, true);
    reopen(r);
    cr_assert_eq(test_read_is(r->d, 2, 0, SLAB, 1), 0);
    free(old);
    free(new);
}

Test(disk_sim, crash_loses_only_what_was_not_synced)
{
    rig_run(2, body_crash);
}

static void body_crash_meta(struct rig *r)
{
    unsigned kept = 0, undone = 0;
    for (unsigned round = 0; round < 40; round++) {
        cr_assert_eq(sfs_disk_meta_write(r->d, "old", "old", 3, 0), 0);
        cr_assert_eq(sfs_disk_meta_sync(r->d, "old"), 0);
        cr_assert_eq(sfs_disk_meta_delete(r->d, "new"), 0);
        cr_assert_eq(sfs_disk_meta_sync(r->d, "new"), 0);
        cr_assert_eq(sfs_disk_meta_delete(r->d, "old"), 0);
        cr_assert_eq(sfs_disk_meta_write(r->d, "new", "new", 3, 0), 0);
        sfs_sim_crash(r->w, false);
        reopen(r);
        char bytes[4] = "";
        int64_t size = sfs_disk_meta_size(r->d, "old");
        cr_assert(size == 3 || size == -ENOENT);
        undone += size == 3;
        if (size == 3) {
            cr_assert_eq(sfs_disk_meta_read(r->d, "old", bytes, 4, 0), 3);
            cr_assert_str_eq(bytes, "old");
        }
        size = sfs_disk_meta_size(r->d, "new");
        cr_assert(size == 3 || size == 0 || size == -ENOENT);
        kept += size >= 0;
    }
    cr_assert(kept > 0 && kept < 40 && undone > 0 && undone < 40);
}

Test(disk_sim, crash_undoes_names_or_not)
{
    rig_run(3, body_crash_meta);
}

/* The n-th call crashes, for every n: what was synced before is there. */
static void body_crash_at(struct rig *r)
{
    for (uint64_t nth = 1;; nth++) {
        cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 100), 0);
        cr_assert_eq(test_sync(r->d), 0);
        uint64_t before = sfs_sim_io_count(r->w);
        sfs_sim_crash_at(r->w, nth, nth % 2);
        int first = test_write(r->d, 0, 0, BLOCK, 200), synced = -1;
        if (first == 0)
            synced = test_sync(r->d);
        int meta = sfs_disk_meta_write(r->d, "m", "x", 1, 0);
        if (!sfs_sim_crashed(r->w)) {
            cr_assert_eq(meta, 0);
            cr_assert_eq(nth, 4);
            cr_assert_eq(sfs_sim_io_count(r->w) - before, 3);
            sfs_sim_crash_at(r->w, 0, false);
            break;
        }
        reopen(r);
        if (synced == 0)
            cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 200), 0);
    }
}

Test(disk_sim, crash_at)
{
    rig_run(4, body_crash_at);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void count_state(struct sfs_disk *d, void *ctx)
{
    (void)d;
    ++*(unsigned *)ctx;
}

static void body_fail(struct rig *r)
{
    unsigned changes = 0;
    sfs_disk_on_state(r->d, count_state, &changes);
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 1), 0);
    sfs_sim_fail_at(r->w, "a", SFS_IO_READ, 2, false);
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), 0);
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), -EIO);
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), 0, "once, and a read error does not cost the disk");
    struct sfs_disk_counters c;
    sfs_disk_counters(r->d, &c);
    cr_assert_eq(c.read_errors, 1);
    cr_assert_eq(c.queued, 0);
    cr_assert_eq(changes, 0);

    sfs_sim_fail_at(r->w, "a", SFS_IO_WRITE, 1, false);
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 1), -EIO);
    cr_assert_eq(sfs_disk_state(r->d), SFS_DISK_FAILED);
    cr_assert_str_eq(sfs_disk_state_why(r->d), "write error: Input/output error");
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), -ENODEV);
    cr_assert_eq(changes, 1);
    reopen(r);
    sfs_sim_fail_at(r->w, "a", SFS_IO_SYNC, 1, true);
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 1), 0);
    cr_assert_eq(test_sync(r->d), -EIO);
    cr_assert_eq(sfs_disk_state(r->d), SFS_DISK_FAILED);
    reopen(r);
    cr_assert_eq(test_sync(r->d), -EIO, "sticky");
    sfs_sim_fail_at(r->w, "a", SFS_IO_SYNC, 0, false);
    reopen(r);
    cr_assert_eq(test_sync(r->d), 0);
}

Test(disk_sim, failures)
{
    rig_run(5, body_fail);
}

static void body_vanish(struct rig *r)
{
    struct sfs_disk_opts opts = {.world = r->w};
    struct sfs_disk *d = NULL;
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 1), 0);
    cr_assert_eq(test_sync(r->d), 0);
    sfs_sim_vanish(r->w, "a");
    cr_assert_eq(sfs_disk_check(r->d), -ENODEV);
    cr_assert_eq(sfs_disk_state(r->d), SFS_DISK_GONE);
    cr_assert_str_eq(sfs_disk_state_why(r->d), "unplugged");
    cr_assert_eq(sfs_disk_open(r->env, "sim:a", &opts, &d, NULL), -ENOENT);
    sfs_sim_return(r->w, "a");
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), -ENODEV, "the old handle is dead for good");
    reopen(r);
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), 0);
}

Test(disk_sim, vanish_and_return)
{
    rig_run(6, body_vanish);
}

static void body_stall(struct rig *r)
{
    sfs_disk_close(r->d);
    rig_format(r, "b", 1u << 20);
    for (int round = 0; round < 2; round++) {
        struct sfs_disk *b = rig_open(r, "sim:b");
        r->d = rig_open(r, "sim:a");
        cr_assert_eq(sfs_disk_slab_alloc(b, 0), 0);
        sfs_sim_stall(r->w, "a", true);
        struct sfs_buf *buf = sfs_buf_new(BLOCK);
        memset(buf->data, 0, BLOCK);
        struct sfs_io ios[6];
        for (unsigned i = 0; i < 6; i++)
            ios[i] = (struct sfs_io){.op = SFS_IO_WRITE,
                                     .disk = i < 5 ? r->d : b,
                                     .slot = 0,
                                     .off = i * BLOCK,
                                     .len = BLOCK,
                                     .buf = buf};
        uint64_t before_ns = sfs_env_mono_ns(r->env);
        cr_assert_eq(sfs_io_run(ios, 6), 5);
        uint64_t took_ns = sfs_env_mono_ns(r->env) - before_ns;
        cr_assert(took_ns >= 1000000000 && took_ns < 1200000000, "%llu", (unsigned long long)took_ns);
        for (unsigned i = 0; i < 5; i++)
            cr_assert_eq(ios[i].result, -ETIMEDOUT);
        cr_assert_eq(ios[5].result, 0, "the other disk is not held up");
        cr_assert_eq(sfs_disk_state(r->d), SFS_DISK_STALLED);
        cr_assert_eq(sfs_disk_meta_sync(r->d, "m"), -ENODEV);
        if (round == 1) /* it comes back while still open */
            sfs_sim_stall(r->w, "a", false);
        sfs_disk_close(r->d);
        sfs_sim_stall(r->w, "a", false);
        sfs_disk_close(b);
        sfs_buf_unref(buf);
    }
    r->d = rig_open(r, "sim:a");
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 1), 0);
}

Test(disk_sim, stall_ends_in_a_time_out)
{
    rig_run(7, body_stall);
}

static void body_full(struct rig *r)
{
    sfs_sim_full(r->w, "a", true);
    cr_assert_eq(sfs_disk_slab_alloc(r->d, 20), -ENOSPC);
    cr_assert_eq(sfs_disk_slab_alloc(r->d, 1), 0, "it is there");
    cr_assert_eq(sfs_disk_meta_write(r->d, "m", "x", 1, 0), -ENOSPC);
    cr_assert_eq(sfs_disk_meta_free_bytes(r->d, 0), 0);
    cr_assert_eq(sfs_disk_state(r->d), SFS_DISK_ONLINE);
    sfs_sim_full(r->w, "a", false);
    cr_assert_eq(sfs_disk_slab_alloc(r->d, 20), 0);
    cr_assert_eq(sfs_disk_meta_write(r->d, "m", "x", 1, 0), 0);
}

Test(disk_sim, full)
{
    rig_run(8, body_full);
}

static void body_silent(struct rig *r)
{
    cr_assert_eq(test_write(r->d, 0, 0, SLAB, 1), 0);
    sfs_sim_lose_write_at(r->w, "a", 2);
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 2), 0);
    cr_assert_eq(test_write(r->d, 0, BLOCK, BLOCK, 3), 0);
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 2), 0);
    cr_assert_eq(test_read_is(r->d, 0, BLOCK, BLOCK, 3), 1, "the second is lost");

    sfs_sim_misdirect_at(r->w, "a", 1);
    cr_assert_eq(test_write(r->d, 0, 4 * BLOCK, BLOCK, 4), 0);
    cr_assert_eq(test_read_is(r->d, 0, 4 * BLOCK, BLOCK, 4), 1);
    unsigned found = 0;
    for (uint32_t off = 0; off < SLAB; off += BLOCK)
        found += test_read_is(r->d, 0, off, BLOCK, 4) == 0;
    cr_assert_eq(found, 1);

    cr_assert_eq(test_write(r->d, 3, 0, BLOCK, 5), 0);
    sfs_sim_rot(r->w, "a", 3, 100, 1);
    cr_assert_eq(test_read_is(r->d, 3, 0, BLOCK, 5), 1);

    char byte = 0;
    cr_assert_eq(sfs_disk_meta_write(r->d, "m", "x", 1, 0), 0);
    cr_assert_eq(sfs_sim_rot_meta(r->w, "a", "m", 0, 1), 0);
    cr_assert_eq(sfs_sim_rot_meta(r->w, "a", "none", 0, 1), -ENOENT);
    cr_assert_eq(sfs_disk_meta_read(r->d, "m", &byte, 1, 0), 1);
    cr_assert_neq(byte, 'x');
}

Test(disk_sim, silent_damage)
{
    rig_run(9, body_silent);
}

static void count_meta(const char *name, uint64_t size, void *ctx)
{
    cr_assert_str_eq(name, "m");
    cr_assert_eq(size, 1);
    ++*(unsigned *)ctx;
}

static void count_slot(uint32_t slot, void *ctx)
{
    cr_assert_lt(slot, 8);
    ++*(unsigned *)ctx;
}

static void body_older(struct rig *r)
{
    unsigned metas = 0, slots = 0;
    struct sfs_label *l = calloc(1, sizeof *l);
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 1), 0);
    cr_assert_eq(sfs_disk_meta_write(r->d, "m", "x", 1, 0), 0);
    sfs_sim_save(r->w, "a");
    cr_assert_eq(test_write(r->d, 0, 0, BLOCK, 2), 0);
    cr_assert_eq(sfs_disk_meta_delete(r->d, "m"), 0);
    sfs_disk_label(r->d, l);
    l->epoch.number = 8;
    l->capacity_slabs = 1; /* not the caller's to change */
    cr_assert_eq(sfs_disk_write_label(r->d, l), 0);
    cr_assert_eq(sfs_disk_slab_free(r->d, 7), 0);
    reopen(r);
    sfs_disk_label(r->d, l);
    cr_assert_eq(l->epoch.number, 8);
    cr_assert_eq(l->capacity_slabs, (4u << 20) / SLAB);
    sfs_sim_restore(r->w, "a");
    cr_assert_eq(sfs_disk_check(r->d), -ENODEV);
    reopen(r);
    sfs_disk_label(r->d, l);
    cr_assert_eq(l->epoch.number, 7);
    cr_assert_eq(test_read_is(r->d, 0, 0, BLOCK, 1), 0);
    cr_assert_eq(sfs_disk_meta_list(r->d, count_meta, &metas), 0);
    cr_assert_eq(sfs_disk_slab_list(r->d, count_slot, &slots), 0);
    cr_assert_eq(metas, 1);
    cr_assert_eq(slots, 8);
    free(l);
}

Test(disk_sim, comes_back_older)
{
    rig_run(10, body_older);
}
