/* The queue with real threads: many callers at once, and workers that hang in a backend and come back late.
 */
#include "tests/unit/disk_common.h"
#include "fs/disk/queue.h"

#define SLAB (64u << 10)
#define MS 1000000ull

/* A backend whose writes to slot 1 hang until they are let go. */
struct hanger {
    struct sfs_backend b;
    struct sfs_mutex m;
    struct sfs_cond c;
    bool hang;
    int *destroyed; /* atomic */
    uint8_t *last;  /* what the late write read from its buffer */
};

static int hang_write(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len)
{
    struct hanger *h = (struct hanger *)b;
    (void)off;
    sfs_mutex_lock(&h->m);
    while (slot == 1 && h->hang)
        sfs_cond_wait(&h->c, &h->m);
    if (slot == 1)
        *h->last = buf[len - 1];
    sfs_mutex_unlock(&h->m);
    return 0;
}

static int hang_check(struct sfs_backend *b, char *why, size_t why_bytes)
{
    (void)b;
    (void)why;
    (void)why_bytes;
    return 0;
}

static void hang_release(struct sfs_backend *b)
{
    (void)b;
}

static void hang_destroy(struct sfs_backend *b)
{
    struct hanger *h = (struct hanger *)b;
    int *destroyed = h->destroyed;
    sfs_cond_destroy(&h->c);
    sfs_mutex_destroy(&h->m);
    sfs_backend_fini(b);
    free(h);
    __atomic_store_n(destroyed, 1, __ATOMIC_RELEASE);
}

static const struct sfs_backend_ops hang_ops = {
    .release = hang_release,
    .destroy = hang_destroy,
    .check = hang_check,
    .write = hang_write,
};

static struct hanger *hanger_new(struct sfs_env *env, int *destroyed, uint8_t *last)
{
    struct hanger *h = calloc(1, sizeof *h);
    cr_assert_eq(sfs_backend_init(&h->b, &hang_ops, env, "hanger", false), 0);
    sfs_mutex_init(&h->m, env, SFS_RANK_LEAF);
    sfs_cond_init(&h->c, env);
    h->b.slab_bytes = SLAB;
    h->b.capacity_slabs = 8;
    h->hang = true;
    h->destroyed = destroyed;
    h->last = last;
    return h;
}

Test(disk_queue, stuck_workers_are_left_behind)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_label *label = test_label_new(env, "hang", SLAB);
    struct sfs_disk_opts opts = {.timeout_ns = 200 * MS, .workers = 3};
    struct sfs_disk *d = NULL;
    int destroyed = 0;
    uint8_t last = 0;
    struct hanger *h = hanger_new(env, &destroyed, &last);
    cr_assert_eq(sfs_disk_new(env, &h->b, label, &opts, &d), 0);

    /* Two hang, the others pass by on the third worker. */
    struct sfs_io ios[6];
    struct sfs_buf *buf = sfs_buf_new(4096);
    memset(buf->data, 0x77, 4096);
    for (unsigned i = 0; i < 6; i++)
        ios[i] =
            (struct sfs_io){.op = SFS_IO_WRITE, .disk = d, .slot = i < 2 ? 1 : 2, .len = 4096, .buf = buf};
    uint64_t start_ns = sfs_env_mono_ns(env);
    cr_assert_eq(sfs_io_run(ios, 6), 2);
    uint64_t took_ns = sfs_env_mono_ns(env) - start_ns;
    cr_assert(took_ns >= 190 * MS && took_ns < 5000 * MS);
    cr_assert_eq(ios[0].result, -ETIMEDOUT);
    cr_assert_eq(ios[1].result, -ETIMEDOUT);
    cr_assert_eq(ios[5].result, 0);
    cr_assert_eq(sfs_disk_state(d), SFS_DISK_STALLED);
    sfs_buf_unref(buf);

    sfs_disk_close(d); /* returns although they hang */
    cr_assert_eq(__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE), 0);
    sfs_mutex_lock(&h->m);
    h->hang = false;
    sfs_cond_broadcast(&h->c);
    sfs_mutex_unlock(&h->m);
    for (unsigned i = 0; i < 5000 && !__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE); i++)
        sfs_env_sleep_ns(env, MS);
    cr_assert_eq(__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE), 1);
    cr_assert_eq(last, 0x77, "its buffer was still there");
    sfs_env_sleep_ns(env, 20 * MS);
    sfs_queue_reap();
    free(label);
    sfs_env_free(env);
    sfs_buf_trim_pool();
}

struct hammer {
    struct sfs_env *env;
    struct sfs_disk *disks[2];
    unsigned number;
    unsigned failed;
};

/* Each thread has a slot of its own: writes both disks at once, reads back, syncs, appends to a metadata
 * file. */
static void hammer_main(void *arg)
{
    struct hammer *h = arg;
    char name[16];
    snprintf(name, sizeof name, "m%u", h->number);
    struct sfs_buf *buf = sfs_buf_new(16384), *got = sfs_buf_new(16384);
    for (unsigned round = 0; round < 60; round++) {
        uint64_t off = round % 4 * 16384;
        test_pattern(buf->data, 16384, h->number * 1000 + round);
        struct sfs_io ios[2];
        for (unsigned i = 0; i < 2; i++)
            ios[i] = (struct sfs_io){.op = SFS_IO_WRITE,
                                     .disk = h->disks[i],
                                     .slot = h->number,
                                     .off = off,
                                     .len = 16384,
                                     .buf = buf};
        h->failed += sfs_io_run(ios, 2);
        for (unsigned i = 0; i < 2; i++) {
            struct sfs_io io = {.op = SFS_IO_READ,
                                .disk = h->disks[i],
                                .slot = h->number,
                                .off = off,
                                .len = 16384,
                                .buf = got};
            h->failed += sfs_io_run(&io, 1);
            h->failed += memcmp(got->data, buf->data, 16384) != 0;
            h->failed += sfs_disk_meta_write(h->disks[i], name, buf->data, 3000, round * 3000u) != 0;
            h->failed += sfs_disk_meta_read(h->disks[i], name, got->data, 3000, round * 3000u) != 3000;
            h->failed += memcmp(got->data, buf->data, 3000) != 0;
        }
        if (round % 10 == h->number) {
            for (unsigned i = 0; i < 2; i++) {
                ios[i].op = SFS_IO_SYNC;
                h->failed += sfs_disk_meta_sync(h->disks[i], name) != 0;
                h->failed += sfs_disk_check(h->disks[i]) != 0;
            }
            h->failed += sfs_io_run(ios, 2);
        }
    }
    sfs_buf_unref(buf);
    sfs_buf_unref(got);
}

Test(disk_queue, many_threads)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_error err = {0};
    char *dir = test_scratch_new(), paths[2][600], command[700];
    struct sfs_disk *disks[2];
    snprintf(paths[0], sizeof paths[0], "%s", dir);
    snprintf(paths[1], sizeof paths[1], "%s/image", dir);
    snprintf(command, sizeof command, "truncate -s 64M '%s'", paths[1]);
    cr_assert_eq(system(command), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct sfs_disk_opts opts = {0};
        struct sfs_label *label = test_label_new(env, i ? "image" : "dir", SLAB);
        cr_assert_eq(sfs_disk_format(env, paths[i], NULL, 8u << 20, false, label, &err), 0, "%s", err.text);
        cr_assert_eq(sfs_disk_open(env, paths[i], &opts, &disks[i], &err), 0, "%s", err.text);
        for (uint32_t slot = 0; slot < 6; slot++)
            cr_assert_eq(sfs_disk_slab_alloc(disks[i], slot), 0);
        free(label);
    }
    struct hammer h[6];
    struct sfs_thread *threads[6];
    for (unsigned i = 0; i < 6; i++) {
        h[i] = (struct hammer){env, {disks[0], disks[1]}, i, 0};
        cr_assert_eq(sfs_thread_start(env, "hammer", hammer_main, &h[i], &threads[i]), 0);
    }
    for (unsigned i = 0; i < 6; i++) {
        sfs_thread_join(threads[i]);
        cr_assert_eq(h[i].failed, 0);
    }
    struct sfs_disk_counters c;
    for (unsigned i = 0; i < 2; i++) {
        sfs_disk_counters(disks[i], &c);
        cr_assert(c.queued == 0 && c.write_errors == 0 && c.writes >= 720);
        cr_assert_str_eq(sfs_disk_state_why(disks[i]), "");
        sfs_disk_close(disks[i]);
    }
    test_scratch_remove(dir);
    sfs_env_free(env);
    sfs_buf_trim_pool();
}
