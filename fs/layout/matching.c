/* Greedy first: the preferred disk with most room left. When a slab finds all its disks full, others make way: a path
 * "a slab of disk A could go to B, one of B to C, C has room" is looked for, breadth first over disks. Disks from which
 * no room can be reached stay so (no later step helps them): they are never looked at again. */
#include "fs/layout/matching.h"

#include <string.h>

#include "fs/base/error.h"

struct match {
    struct sfs_match_slab *slabs;
    unsigned n, n_disks;
    uint64_t left[SFS_MATCH_DISKS];
    uint64_t hopeless; /* disks from which no room can be reached */
};

static int most_room(const struct match *m, uint64_t among)
{
    int best = -1;
    for (unsigned d = 0; d < m->n_disks; d++)
        if (among >> d & 1 && m->left[d] && (best < 0 || m->left[d] > m->left[best]))
            best = (int)d;
    return best;
}

static void put(struct match *m, unsigned slab, unsigned disk)
{
    m->slabs[slab].to = (int)disk;
    m->left[disk]--;
}

/* The search's way back: disk d was reached by moving slab via[d] there. */
struct search {
    uint64_t seen;
    unsigned queue[SFS_MATCH_DISKS], head, tail;
    unsigned via[SFS_MATCH_DISKS];
};

static void reach(struct match *m, struct search *s, uint64_t disks, unsigned by)
{
    for (unsigned d = 0; d < m->n_disks; d++)
        if (disks >> d & 1 && !(s->seen >> d & 1)) {
            s->seen |= 1ull << d;
            s->via[d] = by;
            s->queue[s->tail++] = d;
        }
}

/* Slab `slab` and those in its way move one on each. */
static void make_way(struct match *m, struct search *s, unsigned slab, unsigned free_disk)
{
    unsigned d = free_disk;
    m->left[d]--;
    for (;;) {
        unsigned mover = s->via[d];
        int was = m->slabs[mover].to;
        m->slabs[mover].to = (int)d;
        if (mover == slab)
            return;
        d = (unsigned)was;
    }
}

static int place_by_moving(struct match *m, unsigned slab)
{
    struct search s = {0};
    reach(m, &s, m->slabs[slab].may & ~m->hopeless, slab);
    while (s.head < s.tail) {
        unsigned d = s.queue[s.head++];
        if (m->left[d]) {
            make_way(m, &s, slab, d);
            return 1;
        }
        for (unsigned i = 0; i < m->n; i++)
            if (m->slabs[i].to == (int)d)
                reach(m, &s, m->slabs[i].may & ~m->hopeless, i);
    }
    m->hopeless |= s.seen;
    return 0;
}

unsigned sfs_match(struct sfs_match_slab *slabs, unsigned n, const uint64_t *room, unsigned n_disks)
{
    struct match m = {.slabs = slabs, .n = n, .n_disks = n_disks};
    unsigned placed = 0;
    SFS_ASSERT(n_disks <= SFS_MATCH_DISKS);
    memcpy(m.left, room, n_disks * sizeof(room[0]));
    for (unsigned i = 0; i < n; i++)
        slabs[i].to = -1;
    for (unsigned i = 0; i < n; i++) {
        int d = most_room(&m, slabs[i].may & slabs[i].prefer);
        if (d < 0)
            d = most_room(&m, slabs[i].may);
        if (d >= 0) {
            put(&m, i, (unsigned)d);
            placed++;
        } else {
            placed += (unsigned)place_by_moving(&m, i);
        }
    }
    return placed;
}
