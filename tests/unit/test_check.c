/* spacesfs-check on sim disks: killed, and cut off by a crash of the machine, at every write that it makes; run again, it ends clean. */
#include "fs/check/check.h"
#include "fs/vfs/vfs.h"
#include "meta/audit.h"
#include "fs/pool/discover.h"
#include "tests/unit/pool_fixture.h"

#define DATA_BYTES (300u << 10)

static void write_file(struct sfs_vfs *vfs, const char *name, uint8_t seed)
{
    struct sfs_cred cred = {.privileged = true};
    struct stat st;
    struct sfs_file *file;
    size_t n;
    uint8_t *data = malloc(DATA_BYTES);
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)(i * 7 + i / 4096 + seed);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), name, 0644, 0, &cred, &st, &file), 0);
    cr_assert_eq(sfs_vfs_write(file, data, DATA_BYTES, 0, false, false, &n), 0);
    cr_assert_eq(n, DATA_BYTES);
    sfs_vfs_release(file);
    sfs_vfs_forget(vfs, st.st_ino, 1);
    free(data);
}

/* Three disks, a mirror with three files. */
static void make_files(struct fixture *f)
{
    struct sfs_vfs *vfs;
    struct sfs_error err = {0};
    make_pool(f, (const unsigned[]){16, 16, 16}, 3);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, NULL, &vfs, &err), 0, "%s", err.text);
    write_file(vfs, "one", 1);
    write_file(vfs, "two", 2);
    write_file(vfs, "three", 3);
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

static uint64_t geo(void *ctx, int64_t r, int64_t columns, int64_t interleave)
{
    struct sfs_geometry g;
    (void)ctx;
    return sfs_geometry_init(&g, (enum sfs_resiliency)r, (unsigned)columns, (uint32_t)interleave, 1u << 20, NULL) ? 0 : sfs_geometry_capacity(&g);
}

static unsigned copies(int64_t r)
{
    return sfs_resiliency_copies((enum sfs_resiliency)r);
}

static unsigned parity(int64_t r)
{
    return sfs_resiliency_parity((enum sfs_resiliency)r);
}

static void poke(struct fixture *f, const char *sql)
{
    static const struct sfs_audit_geometry geometry = {geo, copies, parity, NULL};
    struct sfs_disk *disks[3];
    struct sfs_store stores[3];
    struct sfs_replicas *r;
    struct sfs_audit *a;
    struct sfs_error err = {0};
    struct sfs_disk_opts o = {.world = f->world, .workers = 1};
    for (int i = 0; i < 3; i++) {
        char path[] = "sim:a";
        path[4] = (char)('a' + i);
        cr_assert_eq(sfs_disk_open(f->env, path, &o, &disks[i], &err), 0, "%s", err.text);
        sfs_pool_store(disks[i], path + 4, i + 1, &stores[i]);
    }
    cr_assert_eq(sfs_replicas_open(f->env, stores, 3, NULL, false, &r), 0);
    cr_assert_eq(sfs_replicas_recover(r, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_audit_open(f->env, r, &geometry, false, &a, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_audit_exec(a, sql), 0, "%s", sql);
    cr_assert_eq(sfs_audit_commit(a), 0);
    sfs_audit_close(a);
    sfs_replicas_close(r);
    for (int i = 0; i < 3; i++)
        sfs_disk_close(disks[i]);
}

struct seen {
    char text[4000];
};

static void note(void *ctx, const char *text)
{
    struct seen *s = ctx;
    if (strlen(s->text) + strlen(text) + 2 < sizeof(s->text))
        strcat(strcat(s->text, text), "\n");
}

static void problem(void *ctx, const struct sfs_check_problem *p, enum sfs_check_outcome outcome)
{
    char line[300];
    snprintf(line, sizeof(line), "%s %s %d", outcome == SFS_OUTCOME_MENDED ? "mended" : "not mended", p->id, (int)p->count);
    note(ctx, line);
    for (unsigned i = 0; i < p->nitems; i++)
        note(ctx, p->items[i]);
}

static unsigned check(struct fixture *f, enum sfs_check_mode mode, bool data, struct seen *seen)
{
    struct sfs_check_opts o = {.mode = mode, .data = data, .world = f->world};
    struct sfs_check_ui ui = {.note = note, .problem = problem, .ctx = seen};
    struct sfs_check_result res;
    struct sfs_error err = {0};
    seen->text[0] = '\0';
    unsigned status = sfs_check_run(f->env, "sim:a", &o, &ui, &res, &err);
    if (err.code)
        note(seen, err.text);
    return status;
}

static void save_all(struct fixture *f)
{
    sfs_sim_save(f->world, "a");
    sfs_sim_save(f->world, "b");
    sfs_sim_save(f->world, "c");
}

static void restore_all(struct fixture *f)
{
    sfs_sim_restore(f->world, "a");
    sfs_sim_restore(f->world, "b");
    sfs_sim_restore(f->world, "c");
}

static const char many_faults[] =
    "DELETE FROM dentry WHERE name = CAST('one' AS BLOB); UPDATE inode SET nlink = 9 WHERE ino = (SELECT ino FROM dentry WHERE name = CAST('two' AS BLOB));"
    "UPDATE slab SET disk = 77 WHERE copy = 1 AND grp = (SELECT min(grp) FROM slab);"
    "UPDATE extent SET grp = 999 WHERE ino = (SELECT ino FROM dentry WHERE name = CAST('three' AS BLOB)) AND off = 0;"
    "UPDATE space SET inodes = 55; UPDATE state SET next_ino = 3";

static void killed_everywhere(struct fixture *f, bool kill_only)
{
    struct seen seen;
    make_files(f);
    poke(f, many_faults);
    save_all(f);
    unsigned status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    unsigned points = 0;
    for (uint64_t n = 1;; n++) {
        restore_all(f);
        sfs_sim_crash_at(f->world, n, kill_only);
        check(f, SFS_CHECK_ALL, false, &seen);
        bool reached = sfs_sim_crashed(f->world);
        sfs_sim_crash_at(f->world, 0, kill_only);
        if (reached)
            sfs_sim_revive(f->world);
        status = check(f, SFS_CHECK_ALL, false, &seen);
        cr_assert((status & ~(unsigned)SFS_CHECK_MENDED) == 0, "after %s at I/O %llu: %u: %s", kill_only ? "a kill" : "a crash", (unsigned long long)n, status, seen.text);
        status = check(f, SFS_CHECK_LOOK, false, &seen);
        cr_assert_eq(status, SFS_CHECK_CLEAN, "not clean after %s at I/O %llu: %u: %s", kill_only ? "a kill" : "a crash", (unsigned long long)n, status, seen.text);
        if (!reached)
            break;
        points++;
    }
    cr_assert(points > 30, "only %u points", points);
    open_pool(f);
    close_pool(f);
}

static void kills(struct fixture *f)
{
    killed_everywhere(f, true);
}

Test(check, killed_at_every_write_it_can_be_run_again, .timeout = 200)
{
    in_sim(1, kills);
}

static void crashes(struct fixture *f)
{
    killed_everywhere(f, false);
}

Test(check, crashed_at_every_write_it_can_be_run_again, .timeout = 200)
{
    in_sim(2, crashes);
}

/* Of two extents for one place the one whose checksum holds is kept; the other's bytes are an error. */
static void shared(struct fixture *f)
{
    struct seen seen;
    make_files(f);
    poke(f, "UPDATE extent SET grp = (SELECT e.grp FROM extent e JOIN dentry d ON d.ino = e.ino WHERE d.name = CAST('one' AS BLOB) AND e.off = 0), "
            "goff = (SELECT e.goff FROM extent e JOIN dentry d ON d.ino = e.ino WHERE d.name = CAST('one' AS BLOB) AND e.off = 0) "
            "WHERE off = 0 AND ino = (SELECT ino FROM dentry WHERE name = CAST('two' AS BLOB))");
    unsigned status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "extent-shared 2"), "%s", seen.text);
    status = check(f, SFS_CHECK_PREEN, false, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "s:/two: 300.00 KiB") && !strstr(seen.text, "/one"), "%s", seen.text);
}

Test(check, of_two_contents_for_one_place_the_right_one_is_kept)
{
    in_sim(3, shared);
}

/* Rot in every slab of one disk, and in one block of both copies. */
static void rot(struct fixture *f)
{
    struct seen seen;
    make_files(f);
    unsigned status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    for (uint32_t slot = 0; slot < 16; slot++)
        sfs_sim_rot(f->world, "a", slot, 0, 1u << 20);
    status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "not mended copy-bad"), "%s", seen.text);
    status = check(f, SFS_CHECK_PREEN, true, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "a: "), "%s", seen.text);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    for (char disk[] = "a"; disk[0] <= 'c'; disk[0]++)
        for (uint32_t slot = 0; slot < 16; slot++)
            sfs_sim_rot(f->world, disk, slot, 0, 4096);
    status = check(f, SFS_CHECK_ALL, true, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "data-lost"), "%s", seen.text);
}

Test(check, data_is_verified_and_rewritten)
{
    in_sim(4, rot);
}

static void rot_catalogs(struct fixture *f)
{
    for (char disk[] = "a"; disk[0] <= 'c'; disk[0]++)
        for (uint64_t page = 0; page < 8; page++)
            cr_assert_eq(sfs_sim_rot_meta(f->world, disk, "catalog.db", page * 4096 + 100, 50), 0);
}

static void with_snapshot(struct fixture *f)
{
    struct sfs_vfs *vfs;
    struct sfs_error err = {0};
    make_files(f);
    open_pool(f);
    sfs_env_sleep_ns(f->env, 62000000000ull); /* the first snapshot comes after a minute */
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, NULL, &vfs, &err), 0, "%s", err.text);
    write_file(vfs, "four", 4);
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

static void fall_back(struct fixture *f)
{
    struct seen seen;
    with_snapshot(f);
    unsigned status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    rot_catalogs(f);
    struct sfs_error err = {0};
    cr_assert_eq(try_open(f, "sim:a", &err), -EUCLEAN);
    cr_assert(strstr(err.text, "spacesfs-check"), "%s", err.text);
    status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "snapshot-1 on disk"), "%s", seen.text);
    status = check(f, SFS_CHECK_PREEN, false, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "preening must not go back in time: %u: %s", status, seen.text);
    status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert((status & ~(unsigned)SFS_CHECK_LEFT) == 0 && !strstr(seen.text, "data-lost"), "%u: %s", status, seen.text);
    open_pool(f);
    close_pool(f);
}

Test(check, goes_back_to_a_snapshot_when_all_catalogs_are_damaged)
{
    in_sim(5, fall_back);
}

/* Killed anywhere while it goes back. */
static void fall_back_killed(struct fixture *f)
{
    struct seen seen;
    with_snapshot(f);
    rot_catalogs(f);
    save_all(f);
    for (uint64_t n = 1;; n += n < 60 ? 1 : 7) {
        restore_all(f);
        sfs_sim_crash_at(f->world, n, n % 2);
        check(f, SFS_CHECK_ALL, false, &seen);
        bool reached = sfs_sim_crashed(f->world);
        sfs_sim_crash_at(f->world, 0, false);
        if (reached)
            sfs_sim_revive(f->world);
        unsigned status = check(f, SFS_CHECK_ALL, false, &seen);
        cr_assert((status & ~(unsigned)SFS_CHECK_MENDED) == 0, "after I/O %llu: %u: %s", (unsigned long long)n, status, seen.text);
        open_pool(f);
        close_pool(f);
        if (!reached)
            break;
    }
}

Test(check, killed_while_it_goes_back_it_can_be_run_again, .timeout = 200)
{
    in_sim(6, fall_back_killed);
}
