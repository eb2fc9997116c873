/* A pool as a whole on sim disks: which disks and epochs are accepted, and administration. */
#include "tests/unit/pool_fixture.h"

#include <stdlib.h>

static void add_space_and_close(struct fixture *f, const char *which, const char *space)
{
    struct sfs_error err = {0};
    cr_assert_eq(try_open(f, which, &err), 0, "%s", err.text);
    make_space(f, space, SFS_SIMPLE);
    close_pool(f);
}

static void body_split(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){16, 16}, 2);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    close_pool(f);
    /* Each half is used alone. */
    sfs_sim_vanish(f->world, "b");
    add_space_and_close(f, "sim:a", "left");
    sfs_sim_return(f->world, "b");
    sfs_sim_vanish(f->world, "a");
    add_space_and_close(f, "sim:b", "right");
    sfs_sim_return(f->world, "a");
    /* Together they are refused, from whichever one asks, and nothing is changed. */
    for (unsigned i = 0; i < 2; i++) {
        err = (struct sfs_error){0};
        cr_assert_eq(try_open(f, i ? "sim:b" : "sim:a", &err), -EUCLEAN);
        cr_assert(strstr(err.text, "used apart"), "%s", err.text);
    }
    /* Each half alone still has its own changes. */
    sfs_sim_vanish(f->world, "b");
    open_pool(f);
    use_space(f, "left");
    close_pool(f);
    sfs_sim_return(f->world, "b");
    sfs_sim_vanish(f->world, "a");
    cr_assert_eq(try_open(f, "sim:b", &err), 0, "%s", err.text);
    use_space(f, "right");
    close_pool(f);
}

Test(pool, halves_that_were_used_apart_are_refused_together)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_split);
}

static void body_only_old(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){16, 16, 16}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    close_pool(f);
    sfs_sim_vanish(f->world, "c");
    add_space_and_close(f, "sim:a", "later");
    /* c knows nothing of what came later, a and b are gone: the label of c names no newer epoch, so it is the newest there is … */
    sfs_sim_return(f->world, "c");
    open_pool(f); /* all three: c is taken for its data, and made a replica anew */
    use_space(f, "later");
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_eq(info->replicas, 3);
    cr_assert_eq(info->ndisks, 3);
    sfs_pool_info_free(info);
    close_pool(f);
    /* … and from then on it alone is enough. */
    sfs_sim_vanish(f->world, "a");
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(try_open(f, "sim:c", &err), 0, "%s", err.text);
    use_space(f, "later");
    close_pool(f);
}

Test(pool, a_disk_that_was_away_gets_a_current_replica)
{
    in_sim(7, body_only_old);
}

static void body_older_than_it_was(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){16, 16, 16, 16, 16}, 5); /* three replicas: a, b, c */
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    close_pool(f);
    sfs_sim_vanish(f->world, "a");
    cr_assert_eq(try_open(f, "sim:b", &err), 0, "%s", err.text);
    make_space(f, "later", SFS_SIMPLE);
    close_pool(f);
    /* Only a, whose replica is of an older epoch, and d, which has seen the newer one but may hold no replica. */
    sfs_sim_return(f->world, "a");
    struct sfs_pool_info *info;
    sfs_sim_vanish(f->world, "b");
    sfs_sim_vanish(f->world, "c");
    int rc = try_open(f, "sim:a", &err);
    if (rc == 0) { /* d or e has been made a replica in a's place: then it must be the current state */
        use_space(f, "later");
        cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
        sfs_pool_info_free(info);
        close_pool(f);
    } else {
        cr_assert(strstr(err.text, "older copies"), "%s", err.text);
    }
    cr_assert(rc == 0 || rc == -ENODEV);
}

Test(pool, never_an_old_state_in_silence)
{
    in_sim(8, body_older_than_it_was);
}

static void body_destroy_space(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){16, 16, 16}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    uint64_t before = info->free_bytes;
    sfs_pool_info_free(info);
    use_space(f, "docs");
    struct sfs_buf *b = sfs_buf_new(1u << 20);
    memset(b->data, 7, b->len);
    struct sfs_extent ext[SFS_WRITE_MAX_EXTENTS];
    unsigned n;
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(sfs_data_write(f->vol, b, 0, 1u << 20, ext, SFS_WRITE_MAX_EXTENTS, &n), 0);
        for (unsigned k = 0; k < n; k++)
            sfs_stored_unref(sfs_pool_data(f->pool), ext[k].stored);
    }
    sfs_buf_unref(b);
    cr_assert_eq(sfs_pool_space_destroy(f->pool, "docs", NULL, &err), -EBUSY, "it is in use");
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    cr_assert_eq(sfs_pool_space_destroy(f->pool, "docs", NULL, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_space_destroy(f->pool, "docs", NULL, &err), -ENOENT);
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_eq(info->nspaces, 0);
    cr_assert_eq(info->free_bytes, before, "all slabs are free again");
    sfs_pool_info_free(info);
    make_space(f, "docs", SFS_MIRROR3);
    close_pool(f);
}

Test(pool, a_destroyed_space_gives_everything_back)
{
    in_sim(9, body_destroy_space);
}

static void body_bad_input(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){16, 16}, 2);
    struct sfs_disk_spec again[] = {{.path = "sim:a"}};
    struct sfs_pool_create_opts o = {.slab_bytes = 1u << 20, .world = f->world};
    cr_assert_eq(sfs_pool_create(f->env, "other", again, 1, &o, NULL, &err), -EEXIST);
    cr_assert(strstr(err.text, "pool tank"), "%s", err.text);
    cr_assert_eq(sfs_sim_add(f->world, "z", 16u << 20, SFS_MEDIA_HDD), 0);
    struct sfs_disk_spec twice[] = {{.path = "sim:z"}, {.path = "sim:z"}};
    cr_assert_eq(sfs_pool_create(f->env, "other", twice, 2, &o, NULL, &err), -EEXIST);
    cr_assert(strstr(err.text, "same disk"), "%s", err.text);
    struct sfs_disk_probe *p = calloc(1, sizeof(*p));
    cr_assert_eq(sfs_disk_probe(f->env, "sim:z", f->world, p, NULL), 0);
    cr_assert_not(p->has_label, "a refused disk is as it was");
    free(p);
    open_pool(f);
    enum sfs_resiliency m3 = SFS_MIRROR3;
    struct sfs_space_settings s = {.resiliency = &m3};
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &s, &err), -EINVAL, "too few disks");
    cr_assert(strstr(err.text, "at least 3 disks"), "%s", err.text);
    cr_assert_eq(sfs_pool_space_create(f->pool, "a/b", &(struct sfs_space_settings){0}, &err), -EINVAL);
    cr_assert_eq(sfs_pool_space_create(f->pool, "a\nb", &(struct sfs_space_settings){0}, &err), -EINVAL);
    uint32_t odd = 5000;
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &(struct sfs_space_settings){.interleave = &odd}, &err), -EINVAL);
    unsigned wide = 3;
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &(struct sfs_space_settings){.columns = &wide}, &err), -EINVAL);
    uint64_t tiny = 100;
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &(struct sfs_space_settings){.size_bytes = &tiny}, &err), -EINVAL);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "heal-delay", "soon", &err), -EINVAL);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "colour", "red", &err), -EINVAL);
    struct sfs_pool *second;
    struct sfs_pool_open_opts oo = {.world = f->world};
    cr_assert_eq(sfs_pool_open(f->env, "sim:a", &oo, &second, &err), -EBUSY, "one process at a time");
    close_pool(f);
}

Test(pool, bad_input_is_refused_with_words)
{
    in_sim(10, body_bad_input);
}
