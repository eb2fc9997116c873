/* Parity groups on sim disks, without a vfs: whole rows, what lands, reading without columns, rot, healing, failures of a write. */
#include "tests/unit/file_fixture.h"

#include "fs/layout/placement.h"

static enum sfs_resiliency kind;
static unsigned ndisks;

static unsigned columns;

static void begin(struct fixture *f, unsigned mib)
{
    unsigned sizes[16];
    for (unsigned i = 0; i < ndisks; i++)
        sizes[i] = mib;
    make_pool(f, sizes, ndisks);
    open_pool(f);
    struct sfs_error err = {0};
    struct sfs_space_settings s = {.resiliency = &kind, .columns = &columns};
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &s, &err), 0, "%s", err.text);
    use_space(f, "docs");
}

static void commit(struct fixture *f)
{
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
}

static void heal(struct fixture *f)
{
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
}

/* Bytes in groups of that kind. */
static uint64_t used_in(struct fixture *f, enum sfs_resiliency r, unsigned *groups)
{
    struct sfs_data *d = sfs_pool_data(f->pool);
    uint64_t *ids, used = 0;
    unsigned n;
    *groups = 0;
    cr_assert_eq(sfs_group_ids(d, &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        cr_assert_eq(sfs_group_info(d, ids[i], &g), 0);
        if (g.resiliency != r)
            continue;
        used += g.used_bytes;
        ++*groups;
    }
    if (n)
        free(ids);
    return used;
}

static void verify_all(struct fixture *f, uint64_t *bad, uint64_t *lost)
{
    uint64_t *ids;
    unsigned n;
    *bad = *lost = 0;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        uint64_t b, l;
        cr_assert_eq(sfs_verify_group(sfs_pool_data(f->pool), ids[i], NULL, NULL, &b, &l), 0);
        *bad += b;
        *lost += l;
    }
    if (n)
        free(ids);
}

static const enum sfs_resiliency kinds[] = {SFS_PARITY, SFS_PARITY2};

/* Runs body for parity and parity2 with the fewest disks to `most`. */
static void each_shape(uint64_t seed, unsigned most, void (*body)(struct fixture *))
{
    for (unsigned k = 0; k < 2; k++)
        for (ndisks = sfs_resiliency_min_disks(kinds[k]); ndisks <= most; ndisks++) {
            kind = kinds[k];
            in_sim(seed + ndisks, body);
        }
}

/* --- where it goes ------------------------------------------------------------------------------------------------------------------- */

static void body_whole_rows(struct fixture *f)
{
    begin(f, 24);
    struct file t;
    file_open(&t, f);
    uint32_t stripe = sfs_volume_write_unit_bytes(f->vol);
    cr_assert_eq(stripe, (ndisks - sfs_resiliency_parity(kind)) * (256u << 10));
    unsigned groups, left;
    for (uint32_t rest = stripe; rest; rest -= left) { /* a stripe in one call, whatever its size: nothing lands */
        left = rest < MIB ? rest : MIB;
        if (stripe > MIB)
            break;
        cr_assert_eq(file_write(&t, left), 0);
    }
    if (stripe <= MIB) {
        cr_assert_eq(used_in(f, kind, &groups), stripe);
        cr_assert_eq(groups, 1);
    }
    cr_assert_eq(file_write(&t, 8192), 0);
    cr_assert_eq(used_in(f, kind == SFS_PARITY ? SFS_MIRROR2 : SFS_MIRROR3, &groups), 8192);
    cr_assert_geq(groups, 1);
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, whole_rows_go_straight_out_the_rest_lands)
{
    each_shape(1, 6, body_whole_rows);
}

/* --- losing columns -------------------------------------------------------------------------------------------------------------------- */

static void write_mixed(struct file *t, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        cr_assert_eq(file_write(t, MIB), 0);
        cr_assert_eq(file_write(t, 4096 * (1 + i % 9)), 0);
        cr_assert_eq(file_write(t, 300000 + i), 0);
    }
}

/* Every set of disks within the promise is away while all is read; then all is read again from a pool opened without them. */
static void body_every_loss(struct fixture *f)
{
    begin(f, 24);
    struct file t;
    file_open(&t, f);
    write_mixed(&t, 4);
    commit(f);
    uint64_t ino = t.ino;
    file_close(&t);
    close_pool(f);
    for (unsigned a = 0; a < ndisks; a++)
        for (unsigned b = a; b < (kind == SFS_PARITY ? a + 1 : ndisks); b++) {
            char x[2] = {(char)('a' + a), 0}, y[2] = {(char)('a' + b), 0};
            sfs_sim_vanish(f->world, x);
            if (b != a)
                sfs_sim_vanish(f->world, y);
            unsigned any = 0;
            while (any == a || any == b)
                any++;
            char which[] = "sim:a";
            which[4] = (char)('a' + any);
            struct sfs_error err = {0};
            struct sfs_pool_open_opts o = {.world = f->world, .readonly = true};
            cr_assert_eq(sfs_pool_open(f->env, which, &o, &f->pool, &err), 0, "%s", err.text);
            use_space(f, "docs");
            t = (struct file){.f = f};
            file_reload(&t, ino);
            cr_assert_gt(t.n, 10);
            cr_assert_eq(file_check(&t), 0, "without %s and %s of %u", x, y, ndisks);
            for (unsigned i = 0; i < t.n; i++)
                sfs_stored_unref(sfs_pool_data(f->pool), t.ext[i].stored);
            close_pool(f);
            sfs_sim_return(f->world, x);
            if (b != a)
                sfs_sim_return(f->world, y);
        }
}

Test(stripes, all_is_read_without_any_disks_that_it_bears_to_lose)
{
    each_shape(20, 6, body_every_loss);
}

static bool narrow; /* than there are disks: a slab can be built on another; else what is there goes to narrower groups */

/* Disks go one after the other, with writes between; each time it is healed. Then a pending write meets the loss. */
static void body_lose_and_heal(struct fixture *f)
{
    columns = narrow && ndisks > sfs_resiliency_min_disks(kind) ? ndisks - 1 : 0;
    begin(f, 32);
    struct file t;
    file_open(&t, f);
    write_mixed(&t, 3);
    commit(f);
    write_mixed(&t, 1); /* pending when the disk goes */
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(file_check(&t), 0);
    write_mixed(&t, 2);
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    cr_assert_eq(t.lost, 0);
    if (ndisks > sfs_resiliency_min_disks(kind)) { /* else there is no disk to build on */
        heal(f);
        uint64_t bad, lost;
        verify_all(f, &bad, &lost);
        cr_assert_eq(bad, 0, "after the heal");
        cr_assert_eq(lost, 0);
    }
    sfs_sim_vanish(f->world, ndisks > sfs_resiliency_min_disks(kind) || kind == SFS_PARITY2 ? "c" : "b");
    cr_assert_eq(file_check(&t), 0);
    uint64_t ino = t.ino;
    file_close(&t);
    close_pool(f);
    open_pool(f);
    use_space(f, "docs");
    file_open(&t, f);
    file_reload(&t, ino);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, lost_disks_are_worked_around_and_healed)
{
    narrow = true;
    each_shape(100, 7, body_lose_and_heal);
}

Test(stripes, groups_over_all_disks_are_healed_by_narrower_ones)
{
    each_shape(200, 6, body_lose_and_heal);
}

/* --- failures of a write ---------------------------------------------------------------------------------------------------------------- */

static uint64_t nth;
static bool hit;

static void reopen(struct fixture *f, struct file *t, uint64_t ino)
{
    open_pool(f);
    use_space(f, "docs");
    file_open(t, f);
    file_reload(t, ino);
}

/* The nth write, or sync, of a disk fails: what was written is stored all the same, with its redundancy. */
static void body_failed_io(struct fixture *f)
{
    begin(f, 24);
    struct file t;
    file_open(&t, f);
    cr_assert_eq(file_write_many(&t, 3), 0);
    commit(f);
    sfs_sim_fail_at(f->world, "b", nth % 2 ? SFS_IO_WRITE : SFS_IO_SYNC, 1 + nth / 2, false);
    cr_assert_eq(file_write_many(&t, 3), 0);
    write_mixed(&t, 1);
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    cr_assert_eq(t.lost, 0);
    struct sfs_member_info m[16];
    sfs_member_list(sfs_pool_data(f->pool), m, 16);
    hit = false;
    for (unsigned i = 0; i < ndisks; i++)
        hit |= !m[i].online;
    if (kind == SFS_PARITY2)
        sfs_sim_vanish(f->world, "c");
    cr_assert_eq(file_check(&t), 0, "with one column less than is borne");
    file_close(&t);
    close_pool(f);
}

Test(stripes, a_row_that_a_disk_failed_is_written_elsewhere)
{
    for (unsigned k = 0; k < 2; k++) {
        kind = kinds[k];
        ndisks = 5;
        unsigned misses = 0;
        for (nth = 0; misses < 2; nth += 1 + 4 * k) {
            in_sim(nth, body_failed_io);
            misses = hit ? 0 : misses + 1;
        }
        cr_assert_gt(nth, 4);
    }
}

/* A crash at the nth I/O of writing rows and committing them: what was committed is whole, and each of its rows bears a loss. */
static void body_crash(struct fixture *f)
{
    begin(f, 24);
    struct file t;
    file_open(&t, f);
    cr_assert_eq(file_write_many(&t, 2), 0);
    commit(f);
    uint64_t ino = t.ino;
    unsigned before = t.n;
    sfs_sim_crash_at(f->world, nth, nth % 3 == 0);
    bool ok = !file_write_many(&t, 3);
    ok = ok && !file_write(&t, 20000);
    ok = ok && !sfs_commit_wait(sfs_pool_data(f->pool), false);
    unsigned after = t.n;
    hit = sfs_sim_crashed(f->world);
    cr_assert(hit || ok);
    if (!hit)
        sfs_sim_crash(f->world, false);
    file_close(&t);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    reopen(f, &t, ino);
    cr_assert(t.n == before || t.n == after, "%u extents", t.n);
    cr_assert(hit || t.n == after);
    cr_assert_eq(file_check(&t), 0);
    write_mixed(&t, 1); /* rows that the crash left half written are used again */
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    for (unsigned i = 1; i <= sfs_resiliency_parity(kind); i++) {
        char name[2] = {(char)('a' + (nth + i) % ndisks), 0};
        sfs_sim_vanish(f->world, name);
    }
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, a_crash_at_any_point_leaves_whole_rows)
{
    for (unsigned k = 0; k < 2; k++) {
        kind = kinds[k];
        ndisks = 4;
        hit = true;
        for (nth = 1; hit; nth += 1 + 6 * k)
            in_sim(nth, body_crash);
        cr_assert_gt(nth, 10);
    }
}

/* --- rot -------------------------------------------------------------------------------------------------------------------------------- */

static void body_rot(struct fixture *f)
{
    begin(f, 24);
    struct file t;
    file_open(&t, f);
    write_mixed(&t, 4);
    commit(f);
    /* Whole slabs of as many disks as it bears; and elsewhere small spots. */
    for (unsigned i = 0; i < sfs_resiliency_parity(kind); i++) {
        char name[2] = {(char)('a' + i), 0};
        for (unsigned slot = 0; slot < 4; slot++)
            sfs_sim_rot(f->world, name, slot, 0, 1u << 20);
    }
    cr_assert_eq(file_check(&t), 0);
    uint64_t bad, lost;
    verify_all(f, &bad, &lost);
    cr_assert_eq(lost, 0);
    verify_all(f, &bad, &lost);
    cr_assert_eq(bad, 0, "all was repaired, parity too");
    cr_assert_eq(lost, 0);
    sfs_sim_rot(f->world, "c", 0, 70000, 5000);
    sfs_sim_rot(f->world, "a", 0, 300000, 5000);
    cr_assert_eq(file_check(&t), 0);
    verify_all(f, &bad, &lost);
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, rot_is_rebuilt_from_the_other_columns)
{
    each_shape(40, 6, body_rot);
}

/* --- rows are used again ------------------------------------------------------------------------------------------------------------------- */

static void body_fill(struct fixture *f)
{
    begin(f, 16);
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    uint64_t promised = st.avail_bytes;
    for (unsigned round = 0; round < 2; round++) {
        struct file t;
        file_open(&t, f);
        uint64_t stored = 0;
        int rc;
        unsigned step = 8;
        while ((rc = sfs_volume_reserve(f->vol, step * MIB, false)) == 0 || step > 1) {
            if (rc) {
                step /= 2;
                continue;
            }
            rc = file_write_many(&t, step);
            sfs_volume_unreserve(f->vol, step * MIB);
            cr_assert_eq(rc, 0, "what was reserved can be stored (round %u, after %llu)", round, (unsigned long long)stored);
            stored += step * MIB;
        }
        cr_assert_eq(rc, -ENOSPC);
        cr_assert_eq(file_check(&t), 0);
        cr_assert_geq(stored, promised * 85 / 100, "%llu of %llu", (unsigned long long)stored, (unsigned long long)promised);
        commit(f);
        struct sfs_data *d = sfs_pool_data(f->pool);
        unsigned n;
        sfs_catalog_lock(sfs_data_catalog(d));
        cr_assert_eq(sfs_catalog_extent_delete(sfs_data_catalog(d), t.ino, 0, INT64_MAX, 0, sfs_commit_removed, d, &n), 0);
        sfs_catalog_unlock(sfs_data_catalog(d));
        file_close(&t);
        commit(f);
        commit(f);
        sfs_volume_stat(f->vol, &st);
        cr_assert_eq(st.used_bytes, 0);
        cr_assert_geq(st.avail_bytes, promised * 95 / 100, "round %u: %llu of %llu", round, (unsigned long long)st.avail_bytes, (unsigned long long)promised);
    }
    close_pool(f);
}

Test(stripes, a_full_space_is_emptied_and_filled_again)
{
    each_shape(60, 5, body_fill);
}

/* --- more disks ------------------------------------------------------------------------------------------------------------------------------- */

static unsigned widest(struct fixture *f)
{
    uint64_t *ids;
    unsigned n, most = 0;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        cr_assert_eq(sfs_group_info(sfs_pool_data(f->pool), ids[i], &g), 0);
        if (g.resiliency == kind && g.columns > most)
            most = g.columns;
    }
    if (n)
        free(ids);
    return most;
}

/* Groups are open and nearly empty when the disk comes. */
static void body_wider(struct fixture *f)
{
    begin(f, 64);
    struct file t;
    file_open(&t, f);
    cr_assert_eq(file_write_many(&t, 2), 0);
    commit(f);
    cr_assert_eq(widest(f), ndisks);
    struct sfs_disk_spec spec = {.path = "sim:n"};
    struct sfs_error err = {0};
    cr_assert_eq(sfs_sim_add(f->world, "n", 64ull << 20, SFS_MEDIA_SSD), 0);
    cr_assert_eq(sfs_pool_disk_add(f->pool, &spec, 1, false, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_volume_write_unit_bytes(f->vol), (ndisks + 1 - sfs_resiliency_parity(kind)) * (256u << 10));
    cr_assert_eq(file_write_many(&t, 4), 0);
    cr_assert_eq(widest(f), ndisks + 1, "the next write runs over %u disks, not %u", widest(f), ndisks + 1);
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, an_added_disk_makes_new_writes_wider_at_once)
{
    each_shape(70, 5, body_wider);
}

/* --- capacity -------------------------------------------------------------------------------------------------------------------------------- */

/* Filling to the last, in whole MiB; returns what was stored. */
static uint64_t fill_up(struct fixture *f, struct file *t)
{
    uint64_t stored = 0;
    for (unsigned step = 16; step;) {
        if (sfs_volume_reserve(f->vol, step * MIB, false)) {
            step /= 2;
            continue;
        }
        int rc = file_write_many(t, step);
        sfs_volume_unreserve(f->vol, step * MIB);
        cr_assert_eq(rc, 0, "what was reserved can be stored, after %llu", (unsigned long long)stored);
        stored += step * MIB;
    }
    return stored;
}

static unsigned disk_mib[16];

static void body_yield(struct fixture *f)
{
    make_pool(f, disk_mib, ndisks);
    open_pool(f);
    struct sfs_error err = {0};
    uint32_t interleave = 16384;
    struct sfs_space_settings s = {.resiliency = &kind, .interleave = &interleave};
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &s, &err), 0, "%s", err.text);
    use_space(f, "docs");
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    uint64_t promised = st.avail_bytes, slabs[16], raw = 0;
    for (unsigned i = 0; i < ndisks; i++) {
        struct sfs_member_info m[16];
        sfs_member_list(sfs_pool_data(f->pool), m, 16);
        slabs[i] = m[i].free_slabs;
        raw += slabs[i] * MIB;
    }
    uint64_t formula = sfs_place_capacity(slabs, ndisks, kind, 0, MIB);
    struct file t;
    file_open(&t, f);
    uint64_t stored = fill_up(f, &t);
    /* In calls of whole MiB, each of which may leave a gap at the end of its rows; unit/test_capacity fills through a vfs, exactly. */
    cr_assert_geq(stored + 3 * MIB, promised * 99 / 100, "%s on %u disks: %llu of %llu promised", sfs_resiliency_name(kind), ndisks, (unsigned long long)stored, (unsigned long long)promised);
    /* Beside the reserve, what lands takes a slab or two more than in rows. */
    cr_assert_geq(stored + formula / 256 + 6 * MIB, formula, "%s on %u disks of %llu MiB: %llu of %llu", sfs_resiliency_name(kind), ndisks, (unsigned long long)(raw / MIB),
                  (unsigned long long)stored, (unsigned long long)formula);
    sfs_volume_stat(f->vol, &st);
    cr_assert_leq(st.avail_bytes, MIB);
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, filling_reaches_what_the_formula_says)
{
    unsigned seed = 7;
    for (unsigned r = 0; r < SFS_RESILIENCY_COUNT; r++)
        for (unsigned round = 0; round < 2; round++) {
            kind = (enum sfs_resiliency)r;
            ndisks = round == 0 ? 6 : sfs_resiliency_min_disks(kind) + round;
            for (unsigned i = 0; i < ndisks; i++) {
                seed = seed * 1103515245 + 12345;
                disk_mib[i] = round == 0 ? 24 : 16 + seed / 65536 % 16;
            }
            in_sim(seed, body_yield);
        }
}

static void body_fixed(struct fixture *f)
{
    make_pool(f, (unsigned[]){32, 32, 32, 32}, 4);
    open_pool(f);
    struct sfs_error err = {0};
    enum sfs_resiliency parity = SFS_PARITY, mirror = SFS_MIRROR2;
    bool fixed = true;
    uint64_t size = 200ull * MIB;
    struct sfs_space_settings s = {.resiliency = &parity, .fixed = &fixed, .size_bytes = &size};
    cr_assert_eq(sfs_pool_space_create(f->pool, "sure", &s, &err), -ENOSPC);
    cr_assert(strstr(err.text, "200.00 MiB"), "%s", err.text);
    size = 50ull * MIB;
    err = (struct sfs_error){0};
    cr_assert_eq(sfs_pool_space_create(f->pool, "sure", &s, &err), 0, "%s", err.text);
    struct sfs_space_settings thin = {.resiliency = &mirror};
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &thin, &err), 0, "%s", err.text);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    cr_assert_geq(fill_up(f, &t), 16 * MIB);
    commit(f);
    file_close(&t);
    sfs_pool_volume_put(f->pool, f->vol);
    use_space(f, "sure"); /* all of its size is there, though the pool is full for others */
    file_open(&t, f);
    cr_assert_geq(fill_up(f, &t), 46 * MIB);
    commit(f);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(stripes, a_fixed_space_is_sure_of_its_size)
{
    in_sim(1, body_fixed);
}
