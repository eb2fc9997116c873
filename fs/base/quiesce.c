/* Quiescence by generations.
 *
 * Each reader is counted in the generation that is current when it enters. A ticket names the last generation
 * that had readers, and ends it (readers that come later are in the next). A ticket has passed when its
 * generation and all before it are empty.
 *
 * Invariants
 *   1. oldest <= current < oldest + GENERATIONS: the counts fit the ring. All generations outside [oldest,
 *      current] are empty.
 *   2. A generation that a ticket names gets no reader once current is beyond it. When the ring is full,
 *      current can't move on: such a ticket also waits for readers that came later; sfs_quiesce_passed ends
 *      the generation as soon as there is room. */
#include "fs/base/quiesce.h"

#include <stdlib.h>

#include "fs/base/env_impl.h"
#include "fs/base/error.h"

#define GENERATIONS 256u

struct sfs_quiesce {
    struct sfs_mutex mutex; /* held only inside the calls below; guards all that follows */
    uint64_t oldest, current;
    uint64_t readers[GENERATIONS]; /* by generation modulo GENERATIONS */
};

struct sfs_quiesce *sfs_quiesce_new(struct sfs_env *env)
{
    struct sfs_quiesce *q = calloc(1, sizeof(*q));

    if (!q)
        return NULL;
    sfs_mutex_init(&q->mutex, env, SFS_RANK_NONE);
    q->oldest = q->current = 1;
    return q;
}

static uint64_t *count_of(struct sfs_quiesce *q, uint64_t generation)
{
    return &q->readers[generation % GENERATIONS];
}

static void drop_empty(struct sfs_quiesce *q)
{
    while (q->oldest < q->current && *count_of(q, q->oldest) == 0)
        q->oldest++;
}

/* Ends the current generation if there is room. */
static void end_current(struct sfs_quiesce *q)
{
    drop_empty(q);
    if (q->current + 1 < q->oldest + GENERATIONS)
        q->current++;
}

void sfs_quiesce_free(struct sfs_quiesce *q)
{
    if (!q)
        return;
    drop_empty(q);
    SFS_ASSERT(q->oldest == q->current && *count_of(q, q->current) == 0);
    sfs_mutex_destroy(&q->mutex);
    free(q);
}

uint64_t sfs_quiesce_enter(struct sfs_quiesce *q)
{
    uint64_t token;

    sfs_mutex_lock(&q->mutex);
    token = q->current;
    ++*count_of(q, token);
    sfs_mutex_unlock(&q->mutex);
    return token;
}

void sfs_quiesce_exit(struct sfs_quiesce *q, uint64_t token)
{
    sfs_mutex_lock(&q->mutex);
    SFS_ASSERT(token >= q->oldest && token <= q->current && *count_of(q, token) > 0);
    --*count_of(q, token);
    drop_empty(q);
    sfs_mutex_unlock(&q->mutex);
}

uint64_t sfs_quiesce_ticket(struct sfs_quiesce *q)
{
    uint64_t ticket;

    sfs_mutex_lock(&q->mutex);
    if (*count_of(q, q->current) == 0) {
        ticket = q->current - 1; /* all readers are in generations before this one */
    } else {
        ticket = q->current;
        end_current(q);
    }
    sfs_mutex_unlock(&q->mutex);
    return ticket;
}

bool sfs_quiesce_passed(struct sfs_quiesce *q, uint64_t ticket)
{
    bool passed;

    sfs_mutex_lock(&q->mutex);
    SFS_ASSERT(ticket <= q->current);
    if (ticket == q->current)
        end_current(q);
    drop_empty(q);
    passed = q->oldest > ticket;
    sfs_mutex_unlock(&q->mutex);
    return passed;
}
