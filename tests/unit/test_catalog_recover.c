/* Recovery of a catalog whose replicas differ by more than a crash explains: damage in all of them, each time elsewhere; replicas from an earlier time. */
#include <criterion/criterion.h>
#include "tests/unit/catalog_fixture.h"

#define FILES 12u
#define FRAME (24u + SFS_PAGE_BYTES)

static struct sfs_env *env;
static struct fixture x;

static void fill(unsigned from, unsigned to)
{
    for (unsigned k = from; k <= to; k++)
        CHECK_RC(fx_commit(&x, k), 0);
}

static void setup(void)
{
    env = sfs_env_new_real();
    fx_init(&x, env, 3, 1);
    CHECK_RC(fx_create(&x), 0);
    CHECK_RC(fx_open_attached(&x, 0), 0);
}

static void teardown(void)
{
    fx_free(&x);
    sfs_env_free(env);
}

TestSuite(recover, .init = setup, .fini = teardown);

static size_t wal_frames(int store)
{
    return (mem_find(&x.w->s[store], SFS_WAL_FILE, false)->now.len - SFS_WAL_HEADER_BYTES) / FRAME;
}

static uint64_t frame_at(size_t n)
{
    return SFS_WAL_HEADER_BYTES + n * FRAME;
}

/* A store's files, kept and put back: a copy of a disk from an earlier time. */
struct kept {
    struct mem_bytes file[2];
};

static void keep(int store, struct kept *k)
{
    mem_copy(&k->file[0], &mem_find(&x.w->s[store], SFS_CATALOG_FILE, true)->now);
    mem_copy(&k->file[1], &mem_find(&x.w->s[store], SFS_WAL_FILE, true)->now);
}

static void put_back(int store, struct kept *k)
{
    mem_copy(&mem_find(&x.w->s[store], SFS_CATALOG_FILE, true)->now, &k->file[0]);
    mem_copy(&mem_find(&x.w->s[store], SFS_CATALOG_FILE, true)->durable, &k->file[0]);
    mem_copy(&mem_find(&x.w->s[store], SFS_WAL_FILE, true)->now, &k->file[1]);
    mem_copy(&mem_find(&x.w->s[store], SFS_WAL_FILE, true)->durable, &k->file[1]);
    free(k->file[0].data);
    free(k->file[1].data);
    *k = (struct kept){0};
}

static void check_all_there(unsigned want)
{
    CHECK_RC(fx_open(&x, true, 0), 0); /* read-only first: in memory */
    cr_assert_eq(fx_verify(&x), want);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    cr_assert_eq(fx_verify(&x), want);
    fx_close(&x);
    fx_check_equal(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    cr_assert_eq(fx_verify(&x), want);
}

/* Every frame of the WAL is bad on some stores and good on one: the whole of it is put together again. */
Test(recover, a_wal_damaged_on_every_replica_in_other_frames)
{
    fill(1, FILES);
    fx_kill(&x);
    size_t n = wal_frames(0);
    cr_assert(n > 20);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2; k++)
            mem_rot(x.w, (int)((i + k) % 3), SFS_WAL_FILE, frame_at(i) + (i * 977 + k) % FRAME);
    check_all_there(FILES);
    cr_assert(!sfs_replicas_was_behind(x.r, 1), "the clean one that it was opened as at last");
}

/* Every byte of a frame, and of the header, alone on one store, with the last frame bad on the other two. */
Test(recover, any_byte_of_the_wal)
{
    fill(1, 2);
    fx_kill(&x);
    size_t n = wal_frames(0);
    struct kept k[3] = {0};
    for (size_t off = 0; off < frame_at(1); off += off < 200 ? 1 : 97) {
        for (int i = 0; i < 3; i++)
            keep(i, &k[i]);
        mem_rot(x.w, 0, SFS_WAL_FILE, off);
        mem_rot(x.w, 1, SFS_WAL_FILE, frame_at(n - 1) + 500);
        mem_rot(x.w, 2, SFS_WAL_FILE, frame_at(n - 1) + 700);
        CHECK_RC(fx_open(&x, false, 0), 0);
        cr_assert_eq(fx_verify(&x), 2, "byte %zu", off);
        fx_kill(&x);
        for (int i = 0; i < 3; i++)
            put_back(i, &k[i]);
    }
    CHECK_RC(fx_open(&x, false, 0), 0);
}

/* A WAL that is too short on one store, at each length, and bad on the others. */
Test(recover, a_wal_cut_short_beside_bad_ones)
{
    fill(1, 4);
    fx_kill(&x);
    size_t n = wal_frames(0);
    struct kept k[3] = {0};
    for (size_t frames = 1; frames < n; frames++) {
        for (int i = 0; i < 3; i++)
            keep(i, &k[i]);
        mem_find(&x.w->s[0], SFS_WAL_FILE, false)->now.len = frame_at(frames) + 100;
        for (int i = 1; i < 3; i++)
            mem_rot(x.w, i, SFS_WAL_FILE, frame_at((frames - 1) / (size_t)i) + 60);
        CHECK_RC(fx_open(&x, false, 0), 0);
        cr_assert_eq(fx_verify(&x), 4, "cut to %zu frames", frames);
        fx_kill(&x);
        for (int i = 0; i < 3; i++)
            put_back(i, &k[i]);
    }
    CHECK_RC(fx_open(&x, false, 0), 0);
}

/* A disk whose copy of the catalog is from before, in the same epoch: it is told apart, and gets the newest. */
Test(recover, a_replica_from_before_is_behind)
{
    struct kept old = {0};
    fill(1, 3);
    fx_close(&x);
    keep(1, &old);
    CHECK_RC(fx_open(&x, false, 0), 0);
    fill(4, FILES);
    for (int crashed = 0; crashed < 2; crashed++) {
        struct kept again = {0};
        if (crashed)
            fx_kill(&x);
        else
            fx_close(&x);
        mem_copy(&again.file[0], &old.file[0]);
        mem_copy(&again.file[1], &old.file[1]);
        put_back(1, &again);
        CHECK_RC(fx_open(&x, false, 0), 0);
        cr_assert_eq(fx_verify(&x), FILES + (unsigned)crashed);
        cr_assert(!sfs_replicas_was_behind(x.r, 1) && sfs_replicas_was_behind(x.r, 2) && !sfs_replicas_was_behind(x.r, 3));
        fx_commit(&x, FILES + 1 + (unsigned)crashed);
        fx_close(&x);
        fx_check_equal(&x);
        CHECK_RC(fx_open(&x, false, 0), 0);
        cr_assert(!sfs_replicas_was_behind(x.r, 2), "made equal");
        sfs_catalog_lock(x.cat);
        CHECK_RC(sfs_catalog_prop_set(x.cat, "again", crashed ? "1" : "0"), 0);
        sfs_catalog_unlock(x.cat);
    }
    put_back(1, &old);
}

/* Its pages have good checksums, and still are not what a bad page of a current replica is mended from. */
Test(recover, pages_from_before_are_not_used)
{
    fx_close(&x);
    x.nstores = 2;
    CHECK_RC(fx_open(&x, false, 0), 0);
    fill(1, 3);
    fx_close(&x);
    struct kept old = {0}, now = {0};
    keep(1, &old);
    CHECK_RC(fx_open(&x, false, 0), 0);
    fill(4, FILES);
    fx_close(&x);
    keep(0, &now);
    size_t pages = now.file[0].len / SFS_PAGE_BYTES;
    for (size_t page = 0; page < pages; page++) {
        struct kept was = {0}, is = {0};
        mem_copy(&was.file[0], &old.file[0]);
        mem_copy(&was.file[1], &old.file[1]);
        mem_copy(&is.file[0], &now.file[0]);
        mem_copy(&is.file[1], &now.file[1]);
        put_back(0, &is);
        put_back(1, &was);
        mem_rot(x.w, 0, SFS_CATALOG_FILE, page * SFS_PAGE_BYTES + 77);
        int rc = fx_open(&x, false, 0);
        cr_assert(rc == 0 || rc == -EUCLEAN, "page %zu: %d", page, rc);
        if (rc == 0) {
            unsigned n = fx_verify(&x);
            cr_assert(n == FILES, "page %zu: %u files, an older state in silence", page, n);
        }
        fx_close(&x);
    }
    put_back(0, &now);
    put_back(1, &old);
    CHECK_RC(fx_open(&x, false, 0), 0);
}

/* A crash leaves replicas one commit apart: that is nothing to be suspicious of. */
Test(recover, a_crash_is_explained)
{
    for (unsigned round = 0; round < 40; round++) {
        x.w->crash_at = x.w->changes + 1 + round;
        for (unsigned k = 0; k < 6 && !x.w->crashed; k++) {
            sfs_catalog_lock(x.cat);
            char text[16];
            snprintf(text, sizeof(text), "%u", round * 100 + k);
            int rc = sfs_catalog_prop_set(x.cat, "round", text);
            if (!rc)
                rc = sfs_catalog_commit(x.cat, NULL);
            sfs_catalog_unlock(x.cat);
            if (!rc)
                sfs_catalog_commit_sync(x.cat);
        }
        fx_close(&x);
        mem_reboot(x.w, round % 2);
        CHECK_RC(fx_open(&x, false, 0), 0);
        for (int id = 1; id <= 3; id++)
            cr_assert(!sfs_replicas_was_behind(x.r, id), "round %u, disk %d", round, id);
    }
}
