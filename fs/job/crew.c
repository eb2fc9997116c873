#include "fs/job/crew.h"

#define WORKERS_MAX 4u

static void work(void *arg)
{
    struct sfs_crew_worker *w = arg;
    struct sfs_crew *c = w->crew;
    while (c->progress(c->ctx, 0) == 0) {
        unsigned i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED);
        if (i >= c->n)
            return;
        c->work(w, i);
    }
}

int sfs_crew_progress(void *worker, uint64_t bytes)
{
    struct sfs_crew_worker *w = worker;
    int stop = w->crew->progress(w->crew->ctx, bytes);
    if (!stop && w->crew->throttle)
        sfs_throttle_step(w->crew->throttle, &w->pace, bytes);
    return stop;
}

/* A move keeps two disks busy at least. */
static unsigned workers_for(struct sfs_data *d, unsigned n)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned online = 0, disks = sfs_member_list(d, v, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < disks; i++)
        online += v[i].online;
    unsigned most = online / 2 < WORKERS_MAX ? online / 2 : WORKERS_MAX;
    most = most < n ? most : n;
    return most ? most : 1;
}

void sfs_crew_run(struct sfs_crew *c, unsigned n)
{
    struct sfs_crew_worker w[WORKERS_MAX];
    struct sfs_thread *t[WORKERS_MAX];
    unsigned workers = workers_for(c->d, n), helpers = 0;
    c->next = 0;
    c->n = n;
    for (unsigned i = 0; i < workers; i++)
        w[i] = (struct sfs_crew_worker){.crew = c};
    while (helpers + 1 < workers && !sfs_thread_start(sfs_data_env(c->d), "sfs-mover", work, &w[helpers + 1], &t[helpers]))
        helpers++; /* with fewer it takes longer */
    work(&w[0]);
    for (unsigned i = 0; i < helpers; i++)
        sfs_thread_join(t[i]);
}
