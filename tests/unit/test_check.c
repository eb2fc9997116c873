/* spacesfs-check on sim disks: killed, and cut off by a crash of the machine, at every write that it makes; run again, it ends clean. */
#include "fs/check/check.h"
#include "fs/vfs/vfs.h"
#include "meta/audit.h"
#include "fs/pool/discover.h"
#include "tests/unit/pool_fixture.h"

#define DATA_BYTES (300u << 10)

static void write_bytes(struct sfs_vfs *vfs, const char *name, uint8_t seed, size_t bytes)
{
    struct sfs_cred cred = {.privileged = true};
    struct stat st;
    struct sfs_file *file;
    size_t n;
    uint8_t *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + i / 4096 + seed);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), name, 0644, 0, &cred, &st, &file), 0);
    cr_assert_eq(sfs_vfs_write(file, data, bytes, 0, false, false, &n), 0);
    cr_assert_eq(n, bytes);
    sfs_vfs_release(file);
    sfs_vfs_forget(vfs, st.st_ino, 1);
    free(data);
}

static void write_file(struct sfs_vfs *vfs, const char *name, uint8_t seed)
{
    write_bytes(vfs, name, seed, DATA_BYTES);
}

static unsigned ndisks = 3;

/* A space with three files on so many disks. */
static void make_files_on(struct fixture *f, unsigned n, enum sfs_resiliency r)
{
    struct sfs_vfs *vfs;
    struct sfs_error err = {0};
    ndisks = n;
    make_pool(f, (const unsigned[]){16, 16, 16, 16, 16, 16}, n);
    open_pool(f);
    make_space(f, "s", r);
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, NULL, &vfs, &err), 0, "%s", err.text);
    write_file(vfs, "one", 1);
    write_file(vfs, "two", 2);
    write_file(vfs, "three", 3);
    if (sfs_resiliency_parity(r))
        write_bytes(vfs, "rows", 4, 3u << 20); /* whole rows: what is smaller lands in a mirror */
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

/* Three disks, a mirror with three files. */
static void make_files(struct fixture *f)
{
    make_files_on(f, 3, SFS_MIRROR2);
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
    static const struct sfs_audit_geometry geometry = {geo, copies, parity, NULL, NULL};
    struct sfs_disk *disks[6];
    struct sfs_store stores[6];
    unsigned n = 0;
    struct sfs_replicas *r;
    struct sfs_audit *a;
    struct sfs_error err = {0};
    struct sfs_disk_opts o = {.world = f->world, .workers = 1};
    for (unsigned i = 0; i < ndisks; i++) {
        char path[] = "sim:a";
        path[4] = (char)('a' + i);
        cr_assert_eq(sfs_disk_open(f->env, path, &o, &disks[i], &err), 0, "%s", err.text);
        if (sfs_disk_meta_size(disks[i], SFS_CATALOG_FILE) > 0)
            sfs_pool_store(disks[i], path + 4, (int)i + 1, &stores[n++]);
    }
    cr_assert_eq(sfs_replicas_open(f->env, stores, n, NULL, false, &r), 0);
    cr_assert_eq(sfs_replicas_recover(r, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_audit_open(f->env, r, &geometry, false, &a, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_audit_exec(a, sql), 0, "%s", sql);
    cr_assert_eq(sfs_audit_commit(a), 0);
    sfs_audit_close(a);
    sfs_replicas_close(r);
    for (unsigned i = 0; i < ndisks; i++)
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
    for (char name[] = "a"; name[0] < 'a' + (char)ndisks; name[0]++)
        sfs_sim_save(f->world, name);
}

static void restore_all(struct fixture *f)
{
    for (char name[] = "a"; name[0] < 'a' + (char)ndisks; name[0]++)
        sfs_sim_restore(f->world, name);
}

static const char many_faults[] =
    "DELETE FROM dentry WHERE name = CAST('one' AS BLOB); UPDATE inode SET nlink = 9 WHERE ino = (SELECT ino FROM dentry WHERE name = CAST('two' AS BLOB));"
    "UPDATE slab SET disk = 77 WHERE copy = 1 AND grp = (SELECT min(grp) FROM slab);"
    "UPDATE extent SET grp = 999 WHERE ino = (SELECT ino FROM dentry WHERE name = CAST('three' AS BLOB)) AND off = 0;"
    "UPDATE space SET inodes = 55; UPDATE state SET next_ino = 3";

static const char many_faults_of_parity[] =
    "DELETE FROM dentry WHERE name = CAST('one' AS BLOB); UPDATE inode SET nlink = 9 WHERE ino = (SELECT ino FROM dentry WHERE name = CAST('two' AS BLOB));"
    "UPDATE space SET inodes = 55; UPDATE state SET next_ino = 3; INSERT INTO prop VALUES ('heal-delay', 'nonsense'); UPDATE pool SET name = 'other'";

/* Damages what make_files made, then kills the tool (or the machine) at every write that it makes (every stride-th, where all data is read each time): run again, it mends all, and the next run is clean. */
static void killed_everywhere(struct fixture *f, bool kill_only, void (*damage)(struct fixture *), bool data, unsigned stride, unsigned least)
{
    struct seen seen;
    damage(f);
    save_all(f);
    unsigned status = check(f, SFS_CHECK_ALL, data, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, data, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    unsigned points = 0;
    for (uint64_t n = 1;; n += stride) {
        restore_all(f);
        sfs_sim_crash_at(f->world, n, kill_only);
        check(f, SFS_CHECK_ALL, data, &seen);
        bool reached = sfs_sim_crashed(f->world);
        sfs_sim_crash_at(f->world, 0, kill_only);
        if (reached)
            sfs_sim_revive(f->world);
        status = check(f, SFS_CHECK_ALL, data, &seen);
        cr_assert((status & ~(unsigned)SFS_CHECK_MENDED) == 0, "after %s at I/O %llu: %u: %s", kill_only ? "a kill" : "a crash", (unsigned long long)n, status, seen.text);
        status = check(f, SFS_CHECK_LOOK, data, &seen);
        cr_assert_eq(status, SFS_CHECK_CLEAN, "not clean after %s at I/O %llu: %u: %s", kill_only ? "a kill" : "a crash", (unsigned long long)n, status, seen.text);
        if (!reached)
            break;
        points++;
    }
    cr_assert(points > least, "only %u points", points);
    open_pool(f);
    close_pool(f);
}

static void damage_rows(struct fixture *f)
{
    make_files(f);
    poke(f, many_faults);
}

static void kills(struct fixture *f)
{
    killed_everywhere(f, true, damage_rows, false, 1, 30);
}

Test(check, killed_at_every_write_it_can_be_run_again, .timeout = 200)
{
    in_sim(1, kills);
}

static void crashes(struct fixture *f)
{
    killed_everywhere(f, false, damage_rows, false, 1, 30);
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

/* --- labels --- */

static void heal(struct fixture *f)
{
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
}

/* A disk whose label is lost is found by what is on it, and is whole again. */
static void lost_label(struct fixture *f)
{
    struct seen seen;
    struct sfs_pool_open_opts search = {.world = f->world};
    struct sfs_error err = {0};
    make_files(f);
    sfs_sim_lose_label(f->world, "b");
    cr_assert_eq(sfs_pool_open(f->env, "sim:b", &search, &f->pool, &err), -EUCLEAN);
    cr_assert(strstr(err.text, "spacesfs-check"), "%s", err.text);
    unsigned status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert_eq(status, SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "not mended label-lost 1") && strstr(seen.text, "b (sim:b)"), "%s", seen.text);
    status = check(f, SFS_CHECK_PREEN, false, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    open_pool(f);
    close_pool(f);
    sfs_sim_lose_label(f->world, "b");
    sfs_sim_lose_label(f->world, "c");
    status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "both others: %u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "b (sim:b)") && strstr(seen.text, "c (sim:c)"), "%s", seen.text);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
}

Test(check, a_lost_label_is_made_anew)
{
    in_sim(7, lost_label);
}

/* One whose data is not what the catalog has is not taken for that disk. */
static void foreign_label(struct fixture *f)
{
    struct seen seen;
    make_files(f);
    for (uint32_t slot = 0; slot < 16; slot++)
        sfs_sim_rot(f->world, "b", slot, 0, 1u << 20);
    sfs_sim_lose_label(f->world, "b");
    unsigned status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert(!strstr(seen.text, "label-lost") && strstr(seen.text, "nothing on it proves"), "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "disk forget tank b"), "%s", seen.text);
}

Test(check, a_disk_that_cannot_be_proven_is_left_alone)
{
    in_sim(8, foreign_label);
}

static void damage_labels(struct fixture *f)
{
    make_files(f);
    poke(f, "UPDATE inode SET nlink = 9 WHERE ino = (SELECT ino FROM dentry WHERE name = CAST('two' AS BLOB))");
    sfs_sim_lose_label(f->world, "b");
    sfs_sim_lose_label(f->world, "c");
}

static void labels_killed(struct fixture *f)
{
    killed_everywhere(f, true, damage_labels, false, 1, 8);
}

Test(check, killed_while_it_makes_labels_it_can_be_run_again, .timeout = 200)
{
    in_sim(9, labels_killed);
}

static void labels_crashed(struct fixture *f)
{
    killed_everywhere(f, false, damage_labels, false, 1, 8);
}

Test(check, crashed_while_it_makes_labels_it_can_be_run_again, .timeout = 200)
{
    in_sim(10, labels_crashed);
}

/* --- two slabs in one slot --- */

/* The older group is the one that is there: its checksums say so. The younger one's slab is built anew from its other copy. */
static void twice(struct fixture *f)
{
    struct seen seen;
    make_files(f);
    poke(f, "DROP INDEX slab_slot; UPDATE slab SET (disk, slot) = (SELECT disk, slot FROM slab WHERE grp = (SELECT min(grp) FROM extent) AND copy = 0) "
            "WHERE copy = 0 AND grp = (SELECT max(grp) FROM extent) AND (SELECT max(grp) <> min(grp) FROM extent)");
    unsigned status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert(strstr(seen.text, "slab-twice 1"), "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_ALL, false, &seen);
    cr_assert_eq(status, SFS_CHECK_MENDED, "%u: %s", status, seen.text);
    status = check(f, SFS_CHECK_LOOK, false, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    open_pool(f);
    heal(f);
    close_pool(f);
    status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "the slab that was there was given up: %u: %s", status, seen.text);
}

Test(check, of_two_slabs_in_one_slot_the_one_that_is_there_keeps_it)
{
    in_sim(11, twice);
}

/* --- parity --- */

static void rot_disk(struct fixture *f, const char *name)
{
    for (uint32_t slot = 0; slot < 16; slot++)
        sfs_sim_rot(f->world, name, slot, 0, 1u << 20);
}

/* Every strip of a disk is bad, data and parity alike: all of it is found, and made anew from the others, so that afterwards others may go. */
static void parity_rot(struct fixture *f, unsigned n, enum sfs_resiliency r, unsigned bears)
{
    struct seen seen;
    char line[8];
    make_files_on(f, n, r);
    unsigned status = check(f, SFS_CHECK_LOOK, true, &seen);
    cr_assert_eq(status, SFS_CHECK_CLEAN, "%u: %s", status, seen.text);
    for (char name[] = "a"; name[0] < 'a' + (char)n; name[0] = (char)(name[0] + (char)bears)) {
        char other[2] = {(char)('a' + (name[0] - 'a' + 1) % (int)n), '\0'};
        rot_disk(f, name);
        if (bears > 1)
            rot_disk(f, other);
        status = check(f, SFS_CHECK_LOOK, true, &seen);
        cr_assert_eq(status, SFS_CHECK_LEFT, "rot on %s is not found: %u: %s", name, status, seen.text);
        cr_assert(strstr(seen.text, "not mended copy-bad") && !strstr(seen.text, "data-lost"), "%s", seen.text);
        status = check(f, SFS_CHECK_PREEN, true, &seen);
        cr_assert_eq(status, SFS_CHECK_MENDED, "rot on %s: %u: %s", name, status, seen.text);
        snprintf(line, sizeof(line), "%s: ", name);
        cr_assert(strstr(seen.text, line), "nothing was mended on %s: %s", name, seen.text);
        status = check(f, SFS_CHECK_LOOK, true, &seen);
        cr_assert_eq(status, SFS_CHECK_CLEAN, "rot on %s is not mended: %u: %s", name, status, seen.text);
    }
}

static void parity1(struct fixture *f)
{
    parity_rot(f, 3, SFS_PARITY, 1);
}

Test(check, parity_every_strip_is_verified_and_rewritten, .timeout = 250)
{
    in_sim(12, parity1);
}

static void parity2(struct fixture *f)
{
    parity_rot(f, 5, SFS_PARITY2, 2);
}

Test(check, parity2_every_strip_is_verified_and_rewritten, .timeout = 250)
{
    in_sim(13, parity2);
}

/* More is bad than parity bears: files are named, others are mended. */
static void parity_lost(struct fixture *f)
{
    struct seen seen;
    make_files_on(f, 3, SFS_PARITY);
    rot_disk(f, "a");
    rot_disk(f, "b");
    unsigned status = check(f, SFS_CHECK_ALL, true, &seen);
    cr_assert(status & SFS_CHECK_LEFT, "%u: %s", status, seen.text);
    cr_assert(strstr(seen.text, "data-lost"), "%s", seen.text);
}

Test(check, parity_what_is_lost_is_named)
{
    in_sim(14, parity_lost);
}

static void damage_parity(struct fixture *f)
{
    make_files_on(f, 4, SFS_PARITY);
    poke(f, many_faults_of_parity);
    rot_disk(f, "b");
}

static void parity_killed(struct fixture *f)
{
    killed_everywhere(f, true, damage_parity, true, 7, 5);
}

Test(check, parity_killed_at_every_write_it_can_be_run_again, .timeout = 300)
{
    in_sim(15, parity_killed);
}

static void damage_mirror(struct fixture *f)
{
    make_files(f);
    rot_disk(f, "a");
}

static void data_crashed(struct fixture *f)
{
    killed_everywhere(f, false, damage_mirror, true, 3, 5);
}

Test(check, crashed_while_it_mends_data_it_can_be_run_again, .timeout = 300)
{
    in_sim(16, data_crashed);
}
