/* Moving extents to other groups (fs/data/relocate.h): under changes of every kind, crashes, lost disks, rot, and without room. */
#include "tests/unit/vfs_fixture.h"

#include "fs/data/relocate.h"
#include "fs/data/state.h"
#include "fs/pool/pool_impl.h"

static void make(struct fixture *f, const unsigned *mib, unsigned n, enum sfs_resiliency r, bool zstd)
{
    struct sfs_error err = {0};
    enum sfs_codec codec = zstd ? SFS_CODEC_ZSTD : SFS_CODEC_NONE;
    struct sfs_space_settings s = {.resiliency = &r, .codec = &codec};
    make_pool(f, mib, n);
    open_pool(f);
    cr_assert_eq(sfs_pool_space_create(f->pool, "s", &s, &err), 0, "%s", err.text);
    close_pool(f);
}

/* Moves every group that is there now; the first error but that a group went meanwhile. */
static int move_all(struct fixture *f, struct sfs_relocate_result *sum)
{
    struct sfs_data *d = sfs_pool_data(f->pool);
    uint64_t *ids;
    unsigned n;
    int first = 0;
    *sum = (struct sfs_relocate_result){0};
    if (sfs_group_ids(d, &ids, &n))
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_relocate_result r;
        int rc = sfs_relocate_group(d, ids[i], 0, NULL, NULL, &r);
        sum->bytes += r.bytes;
        sum->damaged_bytes += r.damaged_bytes;
        if (rc && rc != -ENOENT && !first)
            first = rc;
    }
    if (n)
        free(ids);
    return first;
}

static bool has_group(struct fixture *f, uint64_t id)
{
    struct sfs_group_info info;
    return sfs_group_info(sfs_pool_data(f->pool), id, &info) == 0;
}

static uint64_t first_group(struct fixture *f)
{
    uint64_t *ids, id;
    unsigned n;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    cr_assert_gt(n, 0);
    id = ids[0];
    free(ids);
    return id;
}

static uint64_t used(struct fixture *f)
{
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    return st.used_bytes;
}

/* --- quiet -------------------------------------------------------------------------------------------------------------------------------------- */

static void body_quiet(struct fixture *f)
{
    struct model m = {0};
    make(f, (unsigned[]){64, 64, 64}, 3, SFS_MIRROR2, false);
    model_mount(&m, f);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(model_write(&m, model_create(&m), 0, 700), 0);
    model_clone(&m, &m.v[0], &m.v[1], 100, 300);
    cr_assert_eq(model_write(&m, &m.v[0], 200, 3), 0);
    model_punch(&m.v[2], 10, 5);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    uint64_t before = used(f), old = first_group(f), bad, lost;
    struct sfs_relocate_result r;
    cr_assert_eq(move_all(f, &r), 0);
    cr_assert_geq(r.bytes, 3u * MIB);
    cr_assert_eq(r.damaged_bytes, 0);
    cr_assert(!has_group(f, old), "what was emptied is gone");
    cr_assert_leq(used(f), before);
    model_check(&m);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
    model_mount(&m, f);
    model_check(&m);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0);
    cr_assert_leq(used(f), before);
    while (m.n)
        model_delete(&m, 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    cr_assert_eq(model_unmount(&m), 0);
    cr_assert_eq(used(f), 0);
    close_pool(f);
}

Test(relocate, everything_is_moved_and_stays_right)
{
    in_sim(1, body_quiet);
}

/* A clone of all of an extent is in memory only; in the catalog are pieces of it. */
static void body_clone_in_memory(struct fixture *f)
{
    struct model m = {0};
    struct sfs_relocate_result r;
    uint64_t bad, lost;
    make(f, (unsigned[]){64, 64}, 2, SFS_MIRROR2, false);
    model_mount(&m, f);
    for (unsigned i = 0; i < 3; i++)
        model_create(&m);
    cr_assert_eq(model_write(&m, &m.v[0], 0, 256), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    model_clone(&m, &m.v[0], &m.v[1], 0, 64);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    model_clone(&m, &m.v[0], &m.v[2], 0, 256);
    model_delete(&m, 0); /* its rows go at once, without a commit */
    sfs_env_sleep_ns(f->env, 100000000);
    uint64_t old = first_group(f);
    cr_assert_eq(move_all(f, &r), 0);
    model_check(&m);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    cr_assert_eq(move_all(f, &r), 0);
    cr_assert(!has_group(f, old));
    model_check(&m);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
    model_mount(&m, f);
    model_check(&m);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(relocate, a_clone_that_is_only_in_memory)
{
    in_sim(7, body_clone_in_memory);
}

/* --- under changes -------------------------------------------------------------------------------------------------------------------------------- */

struct load {
    struct model m;
    bool stop;
    unsigned moves;
    bool zstd;
    enum sfs_resiliency r;
};

static void mover_main(void *arg)
{
    struct load *l = arg;
    while (!l->stop) {
        struct sfs_relocate_result r;
        int rc = move_all(l->m.f, &r);
        cr_assert(rc == 0 || rc == -EAGAIN || rc == -ENOSPC, "%d", rc);
        cr_assert_eq(r.damaged_bytes, 0);
        l->moves += r.bytes > 0;
    }
}

static void change(struct model *m, struct sfs_env *env)
{
    uint64_t x = sfs_env_rand(env);
    unsigned op = (unsigned)(x % 16), a = (unsigned)(x >> 8) % m->n, b = (unsigned)(x >> 16) % m->n;
    uint32_t at = (uint32_t)(x >> 24) % 600, n = 1 + (uint32_t)(x >> 40) % (op < 3 ? 300 : 24);
    struct model_file *f = &m->v[a];
    if (op < 8)
        cr_assert_eq(model_write(m, f, at, n), 0);
    else if (op < 9)
        model_truncate(m, f, at);
    else if (op < 11)
        model_punch(f, at, n);
    else if (op < 13 && a != b && f->blocks > at)
        model_clone(m, f, &m->v[b], at, n * 8 < f->blocks - at ? n * 8 : f->blocks - at);
    else if (op < 14 && m->n > 2)
        model_delete(m, a);
    else if (op < 15 && m->n < 6)
        cr_assert_eq(model_write(m, model_create(m), 0, 200), 0);
    else
        cr_assert_eq(x >> 60 & 1 ? sfs_vfs_sync(m->vfs) : sfs_vfs_fsync(f->file, false), 0);
}

static struct load *load_now;

static void body_load(struct fixture *f)
{
    struct load *l = load_now;
    struct sfs_thread *t;
    uint64_t bad, lost;
    make(f, (unsigned[]){64, 64, 64}, 3, l->r, l->zstd);
    model_mount(&l->m, f);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(model_write(&l->m, model_create(&l->m), 0, 500), 0);
    cr_assert_eq(sfs_thread_start(f->env, "mover", mover_main, l, &t), 0);
    for (unsigned i = 0; i < 400; i++) {
        change(&l->m, f->env);
        if (i % 40 == 0)
            model_check(&l->m);
    }
    l->stop = true;
    sfs_thread_join(t);
    cr_assert_gt(l->moves, 3);
    model_check(&l->m);
    cr_assert_eq(sfs_vfs_sync(l->m.vfs), 0);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0);
    cr_assert_eq(model_unmount(&l->m), 0);
    close_pool(f);
    model_mount(&l->m, f);
    model_check(&l->m);
    while (l->m.n)
        model_delete(&l->m, 0);
    cr_assert_eq(sfs_vfs_sync(l->m.vfs), 0);
    cr_assert_eq(model_unmount(&l->m), 0);
    cr_assert_eq(used(f), 0, "nothing leaks");
    close_pool(f);
}

static void under_load(enum sfs_resiliency r, bool zstd, unsigned seeds)
{
    for (unsigned seed = 1; seed <= seeds; seed++) {
        load_now = calloc(1, sizeof(*load_now));
        *load_now = (struct load){.r = r, .zstd = zstd};
        in_sim(seed, body_load);
        free(load_now);
    }
}

Test(relocate, under_overwrites_trims_clones_and_deletes, .timeout = 120)
{
    under_load(SFS_MIRROR2, false, 6);
}

Test(relocate, under_changes_of_compressed_files, .timeout = 120)
{
    under_load(SFS_SIMPLE, true, 4);
}

/* --- another resiliency in between, while it is read --------------------------------------------------------------------------------------------------- */

static void set_resiliency(struct fixture *f, enum sfs_resiliency r)
{
    struct sfs_space_row row;
    sfs_volume_settings(f->vol, &row);
    row.resiliency = r;
    struct sfs_data *d = sfs_pool_data(f->pool);
    sfs_catalog_lock(sfs_data_catalog(d));
    cr_assert_eq(sfs_catalog_space_put(sfs_data_catalog(d), &row), 0);
    sfs_catalog_unlock(sfs_data_catalog(d));
    sfs_volume_update(d, &row);
}

static void convert_main(void *arg)
{
    struct load *l = arg;
    static const enum sfs_resiliency to[] = {SFS_MIRROR3, SFS_SIMPLE, SFS_MIRROR2};
    for (unsigned i = 0; i < 9; i++) {
        struct sfs_relocate_result r;
        set_resiliency(l->m.f, to[i % 3]);
        cr_assert_eq(move_all(l->m.f, &r), 0);
    }
    l->stop = true;
}

/* Every second copy that is read first is rotten, so that the slow way is taken while the extents move. */
static void body_convert_rotten(struct fixture *f)
{
    struct load *l = load_now;
    struct sfs_thread *t;
    make(f, (unsigned[]){64, 64, 64}, 3, SFS_MIRROR3, false);
    model_mount(&l->m, f);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(model_write(&l->m, model_create(&l->m), 0, 300), 0);
    cr_assert_eq(sfs_vfs_sync(l->m.vfs), 0);
    cr_assert_eq(sfs_thread_start(f->env, "convert", convert_main, l, &t), 0);
    for (unsigned i = 0; !l->stop; i++) {
        for (uint32_t slot = 0; slot < 16; slot++)
            sfs_sim_rot(f->world, "a", slot, (i * 7919u + slot * 4096u) % MIB, 16);
        model_check(&l->m);
        sfs_env_sleep_ns(f->env, 1000000);
    }
    sfs_thread_join(t);
    model_check(&l->m);
    cr_assert_eq(model_unmount(&l->m), 0);
    close_pool(f);
}

/* --- crashes ------------------------------------------------------------------------------------------------------------------------------------------- */

struct sweep {
    uint64_t at;
    bool kill, hit;
};
static struct sweep sweep_now;

static void prepare(struct model *m, struct fixture *f)
{
    model_mount(m, f);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(model_write(m, model_create(m), 0, 300), 0);
    cr_assert_eq(model_write(m, &m->v[0], 33, 2), 0);
    model_clone(m, &m->v[0], &m->v[1], 100, 64);
    cr_assert_eq(sfs_vfs_sync(m->vfs), 0);
}

static void body_crash(struct fixture *f)
{
    static struct model m;
    struct sfs_relocate_result r;
    uint64_t bad, lost;
    m = (struct model){0};
    make(f, (unsigned[]){64, 64, 64}, 3, SFS_MIRROR2, false);
    prepare(&m, f);
    sfs_sim_crash_at(f->world, sweep_now.at, sweep_now.kill);
    (void)move_all(f, &r);
    (void)model_unmount(&m);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    sweep_now.hit = sfs_sim_crashed(f->world);
    sfs_sim_crash_at(f->world, 0, false);
    sfs_sim_revive(f->world);
    model_mount(&m, f);
    model_check(&m);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0, "crash at %llu", (unsigned long long)sweep_now.at);
    cr_assert_eq(move_all(f, &r), 0, "it goes on");
    model_check(&m);
    while (m.n)
        model_delete(&m, 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    cr_assert_eq(model_unmount(&m), 0);
    cr_assert_eq(used(f), 0, "crash at %llu", (unsigned long long)sweep_now.at);
    close_pool(f);
}

static void sweep(void (*body)(struct fixture *), bool kill)
{
    for (uint64_t at = 1;; at++) {
        sweep_now = (struct sweep){at, kill, false};
        in_sim(at, body);
        if (!sweep_now.hit)
            return;
    }
}

Test(relocate, crash_at_every_io, .timeout = 240)
{
    sweep(body_crash, false);
}

Test(relocate, kill_at_every_io, .timeout = 240)
{
    sweep(body_crash, true);
}

/* --- disks that fail --------------------------------------------------------------------------------------------------------------------------------------- */

static enum sfs_io_op op_now;

static void body_fail(struct fixture *f)
{
    static struct model m;
    struct sfs_relocate_result r;
    m = (struct model){0};
    make(f, (unsigned[]){64, 64, 64}, 3, SFS_MIRROR2, false);
    prepare(&m, f);
    sfs_sim_fail_at(f->world, "b", op_now, sweep_now.at, true);
    int rc = move_all(f, &r);
    cr_assert(rc == 0 || rc == -EIO || rc == -EAGAIN || rc == -ENOSPC, "%d", rc);
    cr_assert_eq(r.damaged_bytes, 0);
    sfs_pool_look_after_disks(f->pool, true);
    model_check(&m);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    model_check(&m);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

static void fail_sweep(enum sfs_io_op op, uint64_t limit)
{
    op_now = op;
    for (uint64_t at = 1; at <= limit; at++) {
        sweep_now.at = at;
        in_sim(at, body_fail);
    }
}

Test(relocate, a_disk_fails_at_every_write, .timeout = 120)
{
    fail_sweep(SFS_IO_WRITE, 40);
}

Test(relocate, a_disk_fails_at_every_read, .timeout = 120)
{
    fail_sweep(SFS_IO_READ, 60);
}

Test(relocate, a_disk_fails_at_every_sync, .timeout = 120)
{
    fail_sweep(SFS_IO_SYNC, 20);
}

/* --- targets that lie, and sources that are bad -------------------------------------------------------------------------------------------------------- */

static enum sfs_resiliency lost_in;

static void body_lost_write(struct fixture *f)
{
    static struct model m;
    struct sfs_relocate_result r;
    uint64_t bad, lost;
    m = (struct model){0};
    make(f, (unsigned[]){64, 64, 64}, 3, lost_in, false);
    prepare(&m, f);
    sfs_sim_lose_write_at(f->world, "a", sweep_now.at);
    cr_assert_eq(move_all(f, &r), 0);
    model_verify(f, &bad, &lost); /* before anything is read, which would repair it */
    model_check(&m);
    cr_assert_eq(bad + lost, 0, "what was written wrongly was found before the old place was left");
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(relocate, a_write_that_was_lost_is_found_by_comparing, .timeout = 60)
{
    lost_in = SFS_MIRROR2;
    for (sweep_now.at = 1; sweep_now.at <= 6; sweep_now.at++)
        in_sim(8, body_lost_write);
}

/* One of three columns is parity, on each disk in turn: nobody reads it until a disk is lost. */
Test(relocate, a_parity_that_was_lost_is_found_by_comparing, .timeout = 120)
{
    lost_in = SFS_PARITY;
    for (sweep_now.at = 1; sweep_now.at <= 12; sweep_now.at++)
        in_sim(8, body_lost_write);
}

static void body_damaged(struct fixture *f)
{
    static struct model m;
    struct sfs_relocate_result r;
    m = (struct model){0};
    make(f, (unsigned[]){64}, 1, SFS_SIMPLE, false);
    model_mount(&m, f);
    cr_assert_eq(model_write(&m, model_create(&m), 0, 16), 0);
    cr_assert_eq(model_write(&m, model_create(&m), 0, 400), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    struct sfs_data *d = sfs_pool_data(f->pool);
    uint64_t id = first_group(f);
    for (uint32_t slot = 0; slot < 64; slot++) /* the first file's block, wherever its group begins */
        if (d->groups->slabs[0].slot == slot)
            sfs_sim_rot(f->world, "a", slot, 0, 8);
    cr_assert_eq(move_all(f, &r), 0);
    cr_assert_gt(r.damaged_bytes, 0);
    cr_assert_leq(r.damaged_bytes, MIB);
    cr_assert(has_group(f, id), "what has no good copy isn't given up");
    cr_assert_gt(r.bytes, 0, "the rest is moved");
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(relocate, damaged_extents_stay_and_are_told)
{
    in_sim(5, body_damaged);
}

/* --- no room ---------------------------------------------------------------------------------------------------------------------------------------------- */

static void body_full(struct fixture *f)
{
    static struct model m;
    struct sfs_relocate_result r;
    m = (struct model){0};
    make(f, (unsigned[]){16, 16}, 2, SFS_MIRROR2, false);
    model_mount(&m, f);
    while (m.n < 8) {
        struct model_file *x = model_create(&m);
        for (uint32_t at = 0; at < 640; at += 32)
            if (model_write(&m, x, at, 32))
                break;
    }
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    set_resiliency(f, SFS_SIMPLE); /* needs room beside what there is */
    int rc = move_all(f, &r);
    cr_assert(rc == -ENOSPC || rc == 0, "%d", rc);
    model_check(&m);
    model_delete(&m, 0);
    model_delete(&m, 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    sfs_freeing_tick(sfs_pool_data(f->pool));
    cr_assert_eq(move_all(f, &r), 0, "with room again it goes on");
    model_check(&m);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(relocate, without_room_it_stops_and_goes_on_later)
{
    in_sim(6, body_full);
}

Test(relocate, moved_to_other_resiliencies_while_copies_rot, .timeout = 120)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        load_now = calloc(1, sizeof(*load_now));
        in_sim(seed, body_convert_rotten);
        free(load_now);
    }
}
