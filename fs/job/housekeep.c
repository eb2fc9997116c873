#include "fs/job/housekeep.h"

#include <stdlib.h>

#include "fs/data/diskset.h"
#include "fs/job/compact.h"
#include "fs/job/destage.h"

#define LOOK_NS 1000000000ull
#define STEP_BYTES (1u << 20)
#define SPACES_MAX 256u
#define ROWS_PAUSE 30u

struct sfs_housekeeper {
    struct sfs_data *d;
    struct sfs_env *env;
    struct sfs_throttle *throttle;
    struct sfs_pace pace;
    bool only_idle;        /* what is being done waits when programs are at work */
    struct {
        int space;
        uint64_t left_bytes;
    } destaged[SPACES_MAX]; /* what was left in the landing area when it was last destaged: not tried again before more has come */
    struct {
        int space;
        unsigned pause;    /* looks to pass over: nothing could be done the last time */
    } rows[SPACES_MAX];
    struct sfs_mutex lock; /* SFS_RANK_JOB */
    struct sfs_cond changed;
    bool stop;
    struct sfs_thread *thread;
};

static bool stopping(struct sfs_housekeeper *h)
{
    sfs_mutex_lock(&h->lock);
    bool stop = h->stop;
    sfs_mutex_unlock(&h->lock);
    return stop;
}

static bool is_idle(struct sfs_housekeeper *h)
{
    uint64_t busy = sfs_data_program_ns(h->d);
    return !busy || sfs_env_mono_ns(h->env) - busy >= SFS_DESTAGE_IDLE_NS;
}

/* Programs go first. */
static int progress(void *ctx, uint64_t bytes)
{
    struct sfs_housekeeper *h = ctx;
    if (h->only_idle && !is_idle(h))
        return 1;
    for (uint64_t step; bytes && !stopping(h); bytes -= step) {
        step = bytes < STEP_BYTES ? bytes : STEP_BYTES;
        sfs_throttle_step(h->throttle, &h->pace, step);
    }
    return stopping(h);
}

static void destage(struct sfs_housekeeper *h, int space, unsigned i)
{
    struct sfs_destaging s = {.d = h->d, .progress = progress, .ctx = h};
    struct sfs_landing l;
    if (!sfs_landing_look(h->d, space, &l))
        return;
    enum sfs_destage_need need = sfs_destage_need(&l);
    bool same = h->destaged[i].space == space && h->destaged[i].left_bytes == l.used_bytes;
    if (need == SFS_DESTAGE_NOTHING || same || (need == SFS_DESTAGE_WHEN_IDLE && !is_idle(h)))
        return;
    h->only_idle = need == SFS_DESTAGE_WHEN_IDLE;
    int rc = sfs_destage(&s, space);
    h->only_idle = false;
    if (rc == -ECANCELED || !sfs_landing_look(h->d, space, &l))
        l.used_bytes = 0;
    h->destaged[i].space = space;
    h->destaged[i].left_bytes = l.used_bytes;
}

static void compact_rows(struct sfs_housekeeper *h, int space, unsigned i)
{
    struct sfs_compaction c = {.d = h->d, .progress = progress, .ctx = h};
    if (h->rows[i].space == space && h->rows[i].pause) { /* not the same in vain every second */
        h->rows[i].pause--;
        return;
    }
    if (!sfs_compact_rows_due(h->d, space))
        return;
    int rc = sfs_compact_rows(&c, space);
    h->rows[i].space = space;
    h->rows[i].pause = rc || !c.rewritten_bytes ? ROWS_PAUSE : 0;
}

static void look(struct sfs_housekeeper *h)
{
    int spaces[SPACES_MAX];
    unsigned n = sfs_volume_ids(h->d, spaces, SPACES_MAX);
    for (unsigned i = 0; i < n && !stopping(h); i++) {
        destage(h, spaces[i], i);
        struct sfs_compaction c = {.d = h->d, .progress = progress, .ctx = h};
        if (sfs_compact_due(h->d, spaces[i]))
            sfs_compact(&c, spaces[i]); /* what could not be done is tried when as much has been overwritten again */
        compact_rows(h, spaces[i], i);
    }
}

static void housekeeper_main(void *arg)
{
    struct sfs_housekeeper *h = arg;
    sfs_mutex_lock(&h->lock);
    while (!h->stop) {
        if (sfs_cond_wait_until(&h->changed, &h->lock, sfs_env_mono_ns(h->env) + LOOK_NS) == 0)
            continue;
        sfs_mutex_unlock(&h->lock);
        if (!sfs_data_readonly(h->d))
            look(h);
        sfs_mutex_lock(&h->lock);
    }
    sfs_mutex_unlock(&h->lock);
}

int sfs_housekeeper_start(struct sfs_data *d, struct sfs_throttle *t, struct sfs_housekeeper **out)
{
    struct sfs_housekeeper *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->d = d;
    h->env = sfs_data_env(d);
    h->throttle = t;
    sfs_mutex_init(&h->lock, h->env, SFS_RANK_JOB);
    sfs_cond_init(&h->changed, h->env);
    int rc = sfs_thread_start(h->env, "sfs-housekeep", housekeeper_main, h, &h->thread);
    if (rc) {
        h->thread = NULL;
        sfs_housekeeper_stop(h);
        return rc;
    }
    *out = h;
    return 0;
}

void sfs_housekeeper_stop(struct sfs_housekeeper *h)
{
    if (!h)
        return;
    sfs_mutex_lock(&h->lock);
    h->stop = true;
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
    if (h->thread)
        sfs_thread_join(h->thread);
    sfs_cond_destroy(&h->changed);
    sfs_mutex_destroy(&h->lock);
    free(h);
}
