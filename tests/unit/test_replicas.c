/* The replica set: losses, mending, joining and leaving, reading without writing, scrub, snapshots. */
#include <criterion/criterion.h>
#include "meta/snapshot.h"
#include "tests/unit/catalog_fixture.h"

#define FILES 12u
#define WAL_LIMIT (48u << 10)

static struct sfs_env *env;
static struct fixture x;

static void start(unsigned stores)
{
    fx_init(&x, env, stores, 1);
    CHECK_RC(fx_create(&x), 0);
    CHECK_RC(fx_open_attached(&x, WAL_LIMIT), 0);
}

static void setup(void)
{
    env = sfs_env_new_real();
    start(3);
}

static void teardown(void)
{
    fx_free(&x);
    sfs_env_free(env);
}

static void fill(unsigned from, unsigned to)
{
    for (unsigned k = from; k <= to; k++)
        CHECK_RC(fx_commit(&x, k), 0);
}

TestSuite(replicas, .init = setup, .fini = teardown);

/* --- losses --- */

Test(replicas, a_dead_store_is_dropped_and_told_once)
{
    fill(1, 3);
    x.w->s[1].dead = true;
    fill(4, FILES);
    cr_assert_eq(x.lost[2], 1);
    cr_assert_eq(sfs_replicas_count(x.r), 2);
    int ids[4];
    cr_assert_eq(sfs_replicas_ids(x.r, ids, 4), 2);
    cr_assert(ids[0] == 1 && ids[1] == 3);
    unsigned long writes = x.w->s[1].writes;
    fill(FILES + 1, FILES + 5);
    cr_assert_eq(x.w->s[1].writes, writes, "nothing more is sent to it");
    cr_assert_eq(fx_verify(&x), FILES + 5);
}

Test(replicas, the_loss_is_told_before_a_commit_is_acknowledged)
{
    fill(1, 2);
    x.w->s[2].dead = true;
    x.lost_rc = -EIO; /* it can't be recorded */
    cr_assert_neq(fx_commit(&x, 3), 0);
    cr_assert_eq(x.lost[3], 1);
    cr_assert(sfs_catalog_broken(x.cat));
    sfs_catalog_lock(x.cat);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "b"), -EROFS, "sticky");
    sfs_catalog_unlock(x.cat);
    cr_assert_eq(sfs_catalog_commit_sync(x.cat), -EROFS);
}

/* One thread finds the loss and is busy recording it; a commit of another thread waits for that. */
static int slow_lost(void *ctx, int id, int why)
{
    struct fixture *y = ctx;
    (void)why;
    sfs_env_sleep_ns(y->env, 1000000000);
    y->lost[id]++;
    return 0;
}

static void drop_main(void *arg)
{
    struct fixture *y = arg;
    CHECK_RC(sfs_replicas_drop(y->r, 2, -ENODEV), 0);
}

static void commit_beside_loss(struct sfs_env *e, void *arg)
{
    struct fixture y;
    struct sfs_thread *t;
    (void)arg;
    fx_init(&y, e, 2, 1);
    CHECK_RC(fx_create(&y), 0);
    CHECK_RC(fx_open_attached(&y, WAL_LIMIT), 0);
    y.r->ev.on_lost = slow_lost;
    CHECK_RC(sfs_thread_start(e, "drop", drop_main, &y, &t), 0);
    while (sfs_replicas_count(y.r) == 2)
        sfs_env_yield(e);
    CHECK(y.lost[2] == 0);
    CHECK_RC(fx_commit(&y, 1), 0);
    CHECK(y.lost[2] == 1);
    sfs_thread_join(t);
    fx_free(&y);
}

Test(replicas, a_loss_found_by_another_thread_is_waited_for)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        fx_sim(seed, commit_beside_loss, NULL);
}

/* A store that was lost joins anew while its loss is still being recorded: it is in the set only when that is done,
 * so that whoever is told never takes the old loss for one of the new member. */
static void join_beside_loss(struct sfs_env *e, void *arg)
{
    struct fixture y;
    struct sfs_thread *t;
    (void)arg;
    fx_init(&y, e, 2, 1);
    CHECK_RC(fx_create(&y), 0);
    CHECK_RC(fx_open_attached(&y, WAL_LIMIT), 0);
    y.r->ev.on_lost = slow_lost;
    CHECK_RC(sfs_thread_start(e, "drop", drop_main, &y, &t), 0);
    while (sfs_replicas_count(y.r) == 2)
        sfs_env_yield(e);
    CHECK(y.lost[2] == 0);
    CHECK_RC(sfs_replicas_add(y.r, &y.stores[1], NULL), 0);
    CHECK(y.lost[2] == 1);
    CHECK(sfs_replicas_count(y.r) == 2);
    sfs_thread_join(t);
    fx_free(&y);
}

Test(replicas, a_store_joins_anew_only_when_its_loss_was_told)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        fx_sim(seed, join_beside_loss, NULL);
}

Test(replicas, all_stores_lost)
{
    fill(1, 2);
    for (int i = 0; i < 3; i++)
        x.w->s[i].dead = true;
    cr_assert_neq(fx_commit(&x, 3), 0);
    cr_assert(sfs_catalog_broken(x.cat));
}

Test(replicas, a_full_store_is_dropped_but_not_the_last)
{
    fill(1, 2);
    x.w->full = true; /* all of them: the operation fails, nobody is dropped for it */
    int rc = 0;
    for (unsigned k = 3; k < 40 && !rc; k++)
        rc = fx_commit(&x, k);
    cr_assert_eq(rc, -ENOSPC);
    cr_assert_eq(sfs_replicas_count(x.r), 3);
    cr_assert(sfs_catalog_broken(x.cat));
    x.w->full = false;
    fx_kill(&x);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    unsigned n = fx_verify(&x);
    cr_assert(n >= 2);
    CHECK_RC(fx_commit(&x, n + 1), 0);
}

Test(replicas, dropped_by_its_owner)
{
    fill(1, 2);
    cr_assert_eq(sfs_replicas_drop(x.r, 77, -ENODEV), 0, "unknown ids are fine");
    cr_assert_eq(sfs_replicas_drop(x.r, 1, -ENODEV), 0);
    cr_assert_eq(sfs_replicas_drop(x.r, 1, -ENODEV), 0);
    cr_assert_eq(x.lost[1], 1);
    fill(3, FILES);
    cr_assert_eq(fx_verify(&x), FILES);
    cr_assert_eq(sfs_replicas_drop(x.r, 2, -ENODEV), 0);
    cr_assert_neq(sfs_replicas_drop(x.r, 3, -ENODEV), 0, "the last one: nothing works any more");
    cr_assert_neq(fx_commit(&x, FILES + 1), 0);
}

/* The n-th call on one store fails, once or from then on: no operation fails, the store is told lost at most
 * once, the others hold everything. */
struct fail {
    unsigned long at;
    int store;
    bool sticky, fired;
};

static void fail_one(struct sfs_env *e, void *arg)
{
    struct fail *f = arg;
    struct fixture y;
    fx_init(&y, e, 3, f->at);
    y.w->fail_store = f->store;
    y.w->fail_sticky = f->sticky;
    y.w->fail_at = f->at;
    CHECK_RC(fx_create(&y), 0);
    CHECK_RC(fx_open_attached(&y, WAL_LIMIT), 0);
    for (unsigned k = 1; k <= FILES; k++)
        CHECK_RC(fx_commit(&y, k), 0);
    CHECK(fx_verify(&y) == FILES);
    fx_close(&y);
    f->fired = y.w->fail_seen >= f->at;
    for (int id = 1; id <= 3; id++)
        CHECK(y.lost[id] <= (id == f->store + 1));
    for (int i = 0; i < 3; i++)
        y.w->s[i].dead = false;
    y.w->fail_at = 0;
    /* What is left of the set, without the one that failed. */
    y.stores[0] = mem_store_of(y.w, (f->store + 1) % 3);
    y.stores[1] = mem_store_of(y.w, (f->store + 2) % 3);
    y.nstores = 2;
    CHECK_RC(fx_open(&y, false, WAL_LIMIT), 0);
    CHECK(fx_verify(&y) == FILES);
    fx_free(&y);
}

Test(replicas, every_call_fails_once_or_for_good)
{
    for (int store = 0; store < 2; store++)
        for (int sticky = 0; sticky < 2; sticky++) {
            struct fail f = {.at = 1, .store = store, .sticky = sticky, .fired = true};
            for (; f.fired; f.at++)
                fx_sim(f.at, fail_one, &f);
            cr_assert(f.at > 50);
        }
}

/* --- mending --- */

Test(replicas, any_page_that_rots_on_one_store_is_mended)
{
    fill(1, FILES);
    fx_close(&x);
    size_t pages = mem_find(&x.w->s[0], SFS_CATALOG_FILE, false)->now.len / SFS_PAGE_BYTES;
    cr_assert(pages > 10);
    for (size_t page = 0; page < pages; page++)
        for (int store = 0; store < 2; store++) {
            uint64_t bad;
            mem_rot(x.w, store, SFS_CATALOG_FILE, page * SFS_PAGE_BYTES + (page * 37) % SFS_PAGE_BYTES);
            CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
            cr_assert_eq(fx_verify(&x), FILES);
            cr_assert_eq(sfs_replicas_scrub(x.r, &bad), 0);
            fx_close(&x);
            fx_check_equal(&x);
        }
    cr_assert_eq(x.lost[1] + x.lost[2] + x.lost[3], 0, "a bad page costs no replica");
    cr_assert(x.mended[1] > 0 && x.mended[2] > 0);
}

Test(replicas, a_page_that_rots_on_all_stores_is_refused)
{
    fill(1, FILES);
    fx_close(&x);
    for (int store = 0; store < 3; store++)
        mem_rot(x.w, store, SFS_CATALOG_FILE, 100);
    cr_assert_eq(fx_open(&x, false, WAL_LIMIT), -EUCLEAN);
    cr_assert(strstr(x.err.text, "disk1, disk2, disk3") && strstr(x.err.text, "spacesfs-check"), "%s",
              x.err.text);
    fx_close(&x);
    for (int store = 0; store < 3; store++)
        mem_rot(x.w, store, SFS_CATALOG_FILE, 100);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    cr_assert_eq(fx_verify(&x), FILES);
}

/* Each store has another page bad, every page is good somewhere. */
Test(replicas, different_pages_rot_on_different_stores)
{
    fill(1, FILES);
    fx_close(&x);
    size_t pages = mem_find(&x.w->s[0], SFS_CATALOG_FILE, false)->now.len / SFS_PAGE_BYTES;
    for (size_t page = 0; page < pages; page++)
        for (size_t k = 0; k < 2; k++)
            mem_rot(x.w, (int)((page + k) % 3), SFS_CATALOG_FILE, page * SFS_PAGE_BYTES + 11);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    cr_assert_eq(fx_verify(&x), FILES);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    uint64_t bad;
    cr_assert_eq(sfs_replicas_scrub(x.r, &bad), 0);
    fx_close(&x);
    fx_check_equal(&x);
}

/* The WAL is checked while it is in use, too: each of its frames rots on the store that is read. */
Test(replicas, wal_rot_while_in_use_is_mended)
{
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    fill(1, FILES);
    size_t len = mem_find(&x.w->s[0], SFS_WAL_FILE, false)->now.len;
    cr_assert(len > 20 * SFS_PAGE_BYTES);
    for (size_t off = SFS_WAL_HEADER_BYTES + 24; off + SFS_PAGE_BYTES <= len; off += SFS_PAGE_BYTES + 24)
        mem_rot(x.w, 0, SFS_WAL_FILE, off + 1000);
    sfs_catalog_lock(x.cat);
    CHECK_RC(sfs_db_exec(x.cat->db, "PRAGMA shrink_memory"), 0);
    sfs_catalog_unlock(x.cat);
    cr_assert_eq(fx_verify(&x), FILES);
    fx_close(&x); /* checkpoints every frame */
    cr_assert(x.mended[1] > 0);
    fx_check_equal(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    cr_assert_eq(fx_verify(&x), FILES);
}

Test(replicas, scrub_counts_and_mends)
{
    uint64_t bad = 99;
    fill(1, FILES);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    cr_assert_eq(sfs_replicas_scrub(x.r, &bad), 0);
    cr_assert_eq(bad, 0);
    mem_rot(x.w, 0, SFS_CATALOG_FILE, 5 * SFS_PAGE_BYTES + 1);
    mem_rot(x.w, 2, SFS_CATALOG_FILE, 6 * SFS_PAGE_BYTES + 4095);
    cr_assert_eq(sfs_replicas_scrub(x.r, &bad), 0);
    cr_assert_eq(bad, 2);
    cr_assert(x.mended[1] == 1 && x.mended[3] == 1);
    cr_assert_eq(sfs_replicas_scrub(x.r, &bad), 0);
    cr_assert_eq(bad, 0);
    /* An old page with a good trailer on one store, a write that never came: two against one. */
    struct mem_file *f = mem_find(&x.w->s[1], SFS_CATALOG_FILE, false);
    f->now.data[7 * SFS_PAGE_BYTES + 50] ^= 1;
    sfs_page_seal(f->now.data + 7 * SFS_PAGE_BYTES, 8);
    cr_assert_eq(sfs_replicas_scrub(x.r, &bad), 0);
    cr_assert_eq(bad, 1);
    fx_close(&x);
    fx_check_equal(&x);
}

/* --- readonly --- */

Test(replicas, readonly_writes_nothing_and_sees_what_is_in_the_wal)
{
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    fill(1, FILES);
    fx_kill(&x);
    cr_assert(mem_find(&x.w->s[0], SFS_WAL_FILE, false)->now.len > 0);
    mem_rot(x.w, 0, SFS_WAL_FILE, 40);                     /* one has a bad WAL */
    mem_rot(x.w, 1, SFS_CATALOG_FILE, SFS_PAGE_BYTES + 5); /* another a bad page */
    unsigned long changes = x.w->changes;
    CHECK_RC(fx_open(&x, true, 0), 0);
    cr_assert_eq(fx_verify(&x), FILES);
    sfs_catalog_lock(x.cat);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "b"), -EROFS);
    cr_assert_eq(sfs_catalog_commit(x.cat, NULL), 0);
    sfs_catalog_unlock(x.cat);
    fx_close(&x);
    cr_assert_eq(x.w->changes, changes);
    CHECK_RC(fx_open(&x, false, 0), 0);
    cr_assert_eq(fx_verify(&x), FILES);
}

/* --- joining and leaving --- */

struct joiner {
    struct fixture *x;
    int rc;
    bool done;
};

static void join_main(void *arg)
{
    struct joiner *j = arg;
    j->rc = sfs_replicas_add(j->x->r, &j->x->stores[3], NULL);
    j->done = true;
}

/* Only the store that joined is left: it has everything that was acknowledged after it had joined. */
static void check_alone(struct fixture *y, unsigned want)
{
    struct sfs_store only = mem_store_of(y->w, 3);
    y->stores[0] = only;
    y->nstores = 1;
    CHECK_RC(fx_open(y, false, WAL_LIMIT), 0);
    CHECK(fx_verify(y) >= want);
}

static void join_while_writing(struct sfs_env *e, void *arg)
{
    struct fail *f = arg;
    struct fixture y;
    struct sfs_thread *t;
    fx_init(&y, e, 2, f->at);
    CHECK_RC(fx_create(&y), 0);
    CHECK_RC(fx_open_attached(&y, WAL_LIMIT), 0);
    unsigned k = 1;
    for (; k <= FILES; k++)
        CHECK_RC(fx_commit(&y, k), 0);
    struct joiner j = {.x = &y};
    y.w->fail_store = f->store;
    y.w->fail_at = f->at;
    y.w->fail_seen = 0;
    CHECK_RC(sfs_thread_start(e, "join", join_main, &j, &t), 0);
    while (!j.done)
        CHECK_RC(fx_commit(&y, k++), 0);
    sfs_thread_join(t);
    f->fired = y.w->fail_seen >= f->at;
    y.w->fail_at = 0;
    CHECK(j.rc == 0 || (f->fired && f->store == 3));
    CHECK(y.lost[4] == 0 || j.rc == 0);
    if (f->at % 4 == 0) /* else nothing is synced after it has joined */
        CHECK_RC(fx_commit(&y, k++), 0);
    CHECK(fx_verify(&y) == k - 1);
    bool joined = j.rc == 0 && y.lost[4] == 0;
    CHECK(sfs_replicas_count(y.r) == (joined ? 3u : 2u) - (unsigned)(y.lost[1] + y.lost[2]));
    y.w->crash_at = y.w->changes + 1; /* the power fails */
    fx_close(&y);
    mem_reboot(y.w, false);
    if (joined)
        check_alone(&y, k - 1);
    fx_free(&y);
}

Test(replicas, a_store_joins_while_commits_go_on)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fail f = {.at = 1000000 + seed, .store = 3};
        fx_sim(seed, join_while_writing, &f);
    }
}

Test(replicas, every_call_of_a_joining_store_fails)
{
    struct fail f = {.at = 1, .store = 3, .fired = true};
    for (; f.fired && f.at < 400; f.at += 1 + f.at / 40)
        fx_sim(f.at, join_while_writing, &f);
    f = (struct fail){.at = 1, .store = 0, .fired = true};
    for (; f.fired && f.at < 400; f.at += 3)
        fx_sim(f.at, join_while_writing, &f);
}

Test(replicas, joining_and_leaving_in_order)
{
    fill(1, FILES);
    struct sfs_error err = {0};
    cr_assert_eq(sfs_replicas_add(x.r, &x.stores[1], &err), -EEXIST);
    cr_assert(strstr(err.text, "disk2"));
    cr_assert(mem_find(&x.w->s[1], SFS_CATALOG_FILE, false)->now.exists, "the member's files are untouched");
    CHECK_RC(sfs_replicas_add(x.r, &x.stores[3], &err), 0);
    cr_assert_eq(sfs_replicas_count(x.r), 4);
    for (int id = 1; id <= 3; id++)
        CHECK_RC(sfs_replicas_remove(x.r, id), 0);
    cr_assert(!mem_find(&x.w->s[0], SFS_CATALOG_FILE, false)->now.exists);
    cr_assert_eq(sfs_replicas_remove(x.r, 1), -ENOENT);
    cr_assert_eq(sfs_replicas_remove(x.r, 4), -EBUSY, "the last one stays");
    cr_assert_eq(x.lost[1] + x.lost[2] + x.lost[3] + x.lost[4], 0, "leaving in order is no loss");
    fill(FILES + 1, FILES + 3);
    fx_close(&x);
    check_alone(&x, FILES + 3);
}

/* --- recovery --- */

Test(replicas, nothing_there)
{
    fx_close(&x);
    x.stores[0] = mem_store_of(x.w, 3);
    x.nstores = 1;
    cr_assert_eq(fx_open(&x, false, 0), -ENOENT);
    cr_assert(strstr(x.err.text, "disk4"));
}

Test(replicas, an_empty_and_a_truncated_store_are_filled_again)
{
    fill(1, FILES);
    fx_close(&x);
    mem_find(&x.w->s[0], SFS_CATALOG_FILE, false)->now.exists = false;
    mem_find(&x.w->s[0], SFS_CATALOG_FILE, false)->now.len = 0;
    mem_resize(&mem_find(&x.w->s[1], SFS_CATALOG_FILE, false)->now, 3 * SFS_PAGE_BYTES + 77);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    cr_assert_eq(fx_verify(&x), FILES);
    fx_close(&x);
    fx_check_equal(&x);
}

Test(replicas, a_clean_catalog_opens_without_being_read_whole)
{
    fill(1, 400);
    fx_close(&x);
    unsigned long reads = x.w->s[0].reads;
    unsigned long changes = x.w->changes;
    CHECK_RC(fx_open(&x, false, 0), 0);
    cr_assert(x.w->s[0].reads - reads < 100, "%lu reads", x.w->s[0].reads - reads);
    cr_assert(x.w->changes - changes < 12, "%lu changes", x.w->changes - changes);
}

/* --- snapshots --- */

Test(replicas, snapshot_round_trip)
{
    struct sfs_snapshot list[8];
    struct sfs_error err = {0};
    unsigned n;
    fill(1, 40);
    sfs_catalog_lock(x.cat);
    CHECK_RC(fx_add(&x, 99), 0); /* not committed: not in it */
    sfs_catalog_unlock(x.cat);
    for (unsigned i = 0; i < 4; i++)
        CHECK_RC(sfs_catalog_snapshot(x.cat, x.stores, 4, 2, &err), 0);
    cr_assert_eq(sfs_snapshot_list(&x.stores[3], SFS_SNAPSHOT_HOURLY, list, 8, &n), 0);
    cr_assert_eq(n, 2, "the newest two are kept");
    cr_assert(list[0].number == 4 && list[1].number == 3 && list[0].commit_seq == 41 &&
              list[0].pool.b[2] == 3);
    cr_assert_str_eq(list[0].name, "snapshot-4");
    cr_assert(list[0].bytes < list[0].pages * SFS_PAGE_BYTES / 2, "compressed");
    fx_close(&x);
    for (int i = 0; i < 3; i++) /* all else is gone */
        memset(mem_find(&x.w->s[i], SFS_CATALOG_FILE, false)->now.data, 0xee, 8192);
    cr_assert_eq(fx_open(&x, false, 0), -EUCLEAN);
    CHECK_RC(sfs_snapshot_restore(x.r, &x.stores[3], "snapshot-4", &err), 0);
    CHECK_RC(fx_open_attached(&x, 0), 0);
    cr_assert_eq(fx_verify(&x), 40);
    fill(41, 45);
    fx_close(&x);
    fx_check_equal(&x);
}

struct snapper {
    struct fixture *x;
    int rc;
    bool done;
};

static void snap_main(void *arg)
{
    struct snapper *s = arg;
    s->rc = sfs_catalog_snapshot(s->x->cat, &s->x->stores[3], 1, 1, NULL);
    s->done = true;
}

/* Commits, checkpoints and new beginnings of the WAL while it is being taken. */
static void snapshot_while_writing(struct sfs_env *e, void *arg)
{
    struct fixture y;
    struct sfs_thread *t;
    struct sfs_snapshot list[2];
    unsigned k = 1, n, taken_at;
    (void)arg;
    fx_init(&y, e, 2, 5);
    CHECK_RC(fx_create(&y), 0);
    CHECK_RC(fx_open_attached(&y, WAL_LIMIT), 0);
    for (; k <= 30; k++)
        CHECK_RC(fx_commit(&y, k), 0);
    taken_at = k - 1;
    struct snapper s = {.x = &y};
    CHECK_RC(sfs_thread_start(e, "snap", snap_main, &s, &t), 0);
    while (!s.done)
        CHECK_RC(fx_commit(&y, k++), 0);
    sfs_thread_join(t);
    CHECK_RC(s.rc, 0);
    CHECK(fx_verify(&y) == k - 1);
    fx_close(&y);
    CHECK_RC(sfs_snapshot_list(&y.stores[3], SFS_SNAPSHOT_HOURLY, list, 2, &n), 0);
    CHECK(n == 1);
    CHECK_RC(fx_attach(&y, false), 0);
    CHECK_RC(sfs_snapshot_restore(y.r, &y.stores[3], list[0].name, &y.err), 0);
    CHECK_RC(fx_open_attached(&y, WAL_LIMIT), 0);
    n = fx_verify(&y);
    CHECK(n >= taken_at && n < k && n + 1 == list[0].commit_seq);
    fx_free(&y);
}

Test(replicas, a_snapshot_while_commits_go_on_is_whole)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        fx_sim(seed, snapshot_while_writing, NULL);
}

Test(replicas, a_damaged_snapshot_is_refused_before_anything_is_changed)
{
    struct sfs_error err = {0};
    fill(1, 20);
    CHECK_RC(sfs_catalog_snapshot(x.cat, &x.stores[3], 1, 2, &err), 0);
    fx_close(&x);
    size_t len = mem_find(&x.w->s[3], "snapshot-1", false)->now.len;
    unsigned harmless = 0;
    for (size_t off = 0; off < len; off += off < 128 ? 8 : off < 4096 ? 5000 : 97) {
        if (off >= 72 && off < 4096)
            continue; /* padding */
        mem_rot(x.w, 3, "snapshot-1", off);
        CHECK_RC(fx_attach(&x, false), 0);
        unsigned long changes = x.w->changes;
        /* A compressed stream has bits that its decoder does not use: with one of those flipped what comes out is what was put in, which is checked below. */
        if (sfs_snapshot_restore(x.r, &x.stores[3], "snapshot-1", &err) == 0)
            harmless++;
        else
            cr_assert_eq(x.w->changes, changes);
        fx_close(&x);
        mem_rot(x.w, 3, "snapshot-1", off);
    }
    cr_assert_leq(harmless, 2, "%u", harmless);
    mem_find(&x.w->s[3], "snapshot-1", false)->now.len -= 1;
    CHECK_RC(fx_attach(&x, false), 0);
    cr_assert_eq(sfs_snapshot_restore(x.r, &x.stores[3], "snapshot-1", &err), -EUCLEAN);
    cr_assert_eq(sfs_snapshot_restore(x.r, &x.stores[3], "snapshot-9", &err), -EUCLEAN);
    CHECK_RC(fx_open_attached(&x, 0), 0);
    cr_assert_eq(fx_verify(&x), 20);
}

Test(replicas, a_snapshot_survives_a_store_that_fails)
{
    struct sfs_snapshot list[2];
    struct sfs_error err = {0};
    unsigned n;
    fill(1, 5);
    x.w->s[3].dead = true; /* no replica, so nothing else notices */
    struct sfs_store to[2] = {x.stores[3], x.stores[0]};
    cr_assert_neq(sfs_catalog_snapshot(x.cat, to, 2, 2, &err), 0);
    cr_assert(strstr(err.text, "missing on disk4"), "%s", err.text);
    cr_assert_eq(sfs_snapshot_list(&x.stores[0], SFS_SNAPSHOT_HOURLY, list, 2, &n), 0);
    cr_assert_eq(n, 1);
    fill(6, 8);
}
