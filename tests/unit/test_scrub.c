/* Scrub: finds and repairs what nobody has read, tells by disk and file, goes on where it was, comes by itself. */
#include "tests/unit/care_fixture.h"

#define MIB ((size_t)1 << 20)
#define SECOND 1000000000ull

static uint64_t scrub(struct fixture *f)
{
    struct sfs_error err = {0};
    uint64_t id;
    cr_assert_eq(sfs_pool_scrub(f->pool, &id, &err), 0, "%s", err.text);
    return id;
}

static void scrub_all(struct fixture *f, char text[256])
{
    uint64_t id = scrub(f);
    int rc;
    while ((rc = sfs_pool_job_wait(f->pool, id, SECOND, text)) == -ETIMEDOUT)
        ;
    cr_assert_eq(rc, 0, "%s", text);
}

static struct sfs_scrub_report *report(struct fixture *f)
{
    struct sfs_scrub_report *r;
    cr_assert_eq(sfs_pool_scrub_report(f->pool, &r), 0);
    return r;
}

static void write_files(unsigned n)
{
    char name[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "/f%u", i);
        write_file(name, 0, MIB / 2);
    }
}

static void body_repairs(struct fixture *f)
{
    char text[256];
    begin_care(f, (unsigned[]){40, 40, 40}, 3, SFS_MIRROR2);
    write_files(20);
    scrub_all(f, text);
    cr_assert(strstr(text, "10.00 MiB were read") && strstr(text, "every copy is good"), "%s", text);
    struct sfs_scrub_report *r = report(f);
    cr_assert_eq(r->nfiles, 0);
    cr_assert_eq(r->damaged->files, 0);
    cr_assert_gt(r->next, r->last);
    sfs_pool_scrub_report_free(r);
    /* One copy each of two files rots, and both of a third. */
    unsigned hits = 0;
    for (char disk[] = "a"; disk[0] <= 'c' && !hits; disk[0]++)
        hits = rot_file(f, "/f3", 100, disk);
    cr_assert_eq(hits, 1);
    for (char disk[] = "c"; disk[0] >= 'a' && hits == 1; disk[0]--)
        hits += rot_file(f, "/f4", 200000, disk);
    cr_assert_eq(hits, 2);
    cr_assert_eq(rot_file(f, "/f7", 70000, NULL), 2);
    scrub_all(f, text);
    cr_assert(strstr(text, "8.00 KiB of bad copies were rewritten") && strstr(text, "some files are damaged"), "%s", text);
    r = report(f);
    cr_assert_str_eq(r->state, "done");
    cr_assert_eq(r->nfiles, 2);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_str_eq(r->files[i].space, "s");
        cr_assert_str_eq(r->files[i].path, i ? "/f4" : "/f3");
        cr_assert_eq(r->files[i].bytes, 4096);
        cr_assert(r->files[i].disk[0] >= 'a' && r->files[i].disk[0] <= 'c');
    }
    cr_assert_eq(r->damaged->files, 1);
    cr_assert_str_eq(r->damaged->v[0].path, "/f7");
    sfs_pool_scrub_report_free(r);
    sfs_env_sleep_ns(f->env, 5 * SECOND);
    cr_assert(has_event(f, "scrub-done", "were rewritten"));
    cr_assert(has_event(f, "damage", "/f7 in tank/s"));
    /* The report outlives a remount; what was repaired is good on every copy. */
    unmount_space(f);
    mount_space(f);
    r = report(f);
    cr_assert_eq(r->nfiles, 2);
    sfs_pool_scrub_report_free(r);
    cr_assert_eq(sfs_vfs_unlink(vfs, sfs_vfs_root(vfs), "f7"), 0);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    sfs_env_sleep_ns(f->env, 20 * SECOND);
    scrub_all(f, text);
    cr_assert(strstr(text, "every copy is good"), "%s", text);
    unmount_space(f);
}

Test(scrub, repairs_and_tells_by_disk_and_file)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_repairs);
}

static void crash(struct fixture *f)
{
    sfs_sim_crash(f->world, false);
    (void)sfs_vfs_close(vfs);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    mount_space(f);
}

struct found {
    char state[16];
    uint64_t jobs;
};

static void last_job(struct fixture *f, struct found *o)
{
    struct sfs_pool_info *i;
    *o = (struct found){0};
    cr_assert_eq(sfs_pool_info(f->pool, &i), 0);
    for (unsigned k = 0; k < i->njobs; k++) {
        if (strcmp(i->jobs[k].row.kind, "scrub"))
            continue;
        if (!o->jobs++)
            snprintf(o->state, sizeof(o->state), "%s", i->jobs[k].row.state);
    }
    sfs_pool_info_free(i);
}

/* Cut short again and again, it still comes to its end, as one job, with everything that it has found. */
static void body_resumes(struct fixture *f)
{
    struct found o;
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_MIRROR2);
    write_files(40);
    cr_assert_eq(rot_file(f, "/f0", 0, "a"), 1);
    cr_assert_eq(rot_file(f, "/f39", 8192, "b"), 1);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "job-rate", "4M", NULL), 0);
    scrub(f);
    unsigned cuts = 0;
    for (last_job(f, &o); !strcmp(o.state, "running") && cuts < 200; last_job(f, &o), cuts++) {
        sfs_env_sleep_ns(f->env, 600000000);
        if (cuts % 2) {
            unmount_space(f);
            mount_space(f);
        } else {
            cr_assert_eq(sfs_pool_sync(f->pool), 0);
            crash(f);
        }
    }
    cr_assert_gt(cuts, 2, "%u", cuts);
    cr_assert_eq(o.jobs, 1);
    cr_assert_str_eq(o.state, "done");
    struct sfs_scrub_report *r = report(f);
    cr_assert_eq(r->nfiles, 2, "%u", r->nfiles);
    sfs_pool_scrub_report_free(r);
    unmount_space(f);
}

Test(scrub, goes_on_where_it_was)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_resumes);
}

static void body_stop(struct fixture *f)
{
    struct sfs_error err = {0};
    struct found o;
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_MIRROR2);
    write_files(40);
    cr_assert_eq(sfs_pool_scrub_stop(f->pool, &err), -ENOENT);
    cr_assert(strstr(err.text, "not being scrubbed"));
    scrub(f);
    err = (struct sfs_error){0};
    uint64_t id = 0;
    cr_assert_eq(sfs_pool_scrub(f->pool, &id, &err), -EALREADY);
    cr_assert_neq(id, 0);
    cr_assert_eq(sfs_pool_scrub_stop(f->pool, &err), 0, "%s", err.text);
    last_job(f, &o);
    cr_assert_str_eq(o.state, "cancelled");
    char text[256];
    scrub_all(f, text);
    cr_assert(strstr(text, "20.00 MiB were read"), "%s", text);
    unmount_space(f);
}

Test(scrub, is_stopped_when_asked_and_begins_anew)
{
    in_sim(4, body_stop);
}

static void body_schedule(struct fixture *f)
{
    struct sfs_error err = {0};
    struct found o;
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_MIRROR2);
    write_files(3);
    char value[32];
    cr_assert_eq(sfs_pool_prop_get(f->pool, "scrub-every", value, sizeof(value), &err), 0);
    cr_assert_str_eq(value, "30d");
    static const char *const bad[] = {"", "never", "5m", "-1h", "1x"};
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(sfs_pool_prop_set(f->pool, "scrub-every", bad[i], &err), -EINVAL, "%s", bad[i]);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "scrub-every", "1h", &err), 0);
    sfs_env_sleep_ns(f->env, 3000 * SECOND);
    last_job(f, &o);
    cr_assert_eq(o.jobs, 0, "not before its time");
    unmount_space(f); /* time passes for a pool that isn't mounted, too */
    sfs_env_sleep_ns(f->env, 3000 * SECOND);
    mount_space(f);
    sfs_env_sleep_ns(f->env, 130 * SECOND);
    last_job(f, &o);
    cr_assert_eq(o.jobs, 1);
    cr_assert_str_eq(o.state, "done");
    sfs_env_sleep_ns(f->env, 3800 * SECOND);
    last_job(f, &o);
    cr_assert_eq(o.jobs, 2);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "scrub-every", "off", &err), 0);
    sfs_env_sleep_ns(f->env, 8000 * SECOND);
    last_job(f, &o);
    cr_assert_eq(o.jobs, 2);
    struct sfs_scrub_report *r = report(f);
    cr_assert_eq(r->next, 0);
    sfs_pool_scrub_report_free(r);
    unmount_space(f);
}

Test(scrub, comes_by_itself)
{
    in_sim(5, body_schedule);
}

static void body_degraded(struct fixture *f)
{
    char text[256];
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_MIRROR2);
    write_files(10);
    sfs_sim_vanish(f->world, "b");
    sfs_env_sleep_ns(f->env, 5 * SECOND);
    scrub_all(f, text);
    cr_assert(strstr(text, "copies are missing") && !strstr(text, "rewritten") && !strstr(text, "damaged"), "%s", text);
    struct sfs_scrub_report *r = report(f);
    cr_assert_eq(r->nfiles, 0);
    sfs_pool_scrub_report_free(r);
    unmount_space(f);
}

Test(scrub, of_a_degraded_pool_says_what_it_could_not_read)
{
    in_sim(6, body_degraded);
}
