/* The inside of fs/data: what its files share. Only fs/data includes this.
 *
 * One lock, sfs_data.lock (SFS_RANK_GROUPS), guards: members (handles, slot maps), groups (slabs, state, bitmap, pending tree, counters), volumes (settings, open set, reservations), the table of stored
 * extents, the candidate and release lists. It is never held across I/O or a call into the catalog. The catalog's lock may be held when it is taken. */
#ifndef SFS_DATA_STATE_H
#define SFS_DATA_STATE_H

#include <bsd/sys/tree.h>
#include <sys/queue.h>
#include <uthash.h>

#include "fs/data/commit.h"
#include "fs/data/damage.h"
#include "fs/data/diskset.h"
#include "fs/data/groups.h"
#include "fs/layout/geometry.h"
#include "fs/layout/placement.h"

struct sfs_stored_key {
    uint64_t group, goff;
    uint64_t slen;             /* 64 bits, so that the key has no padding */
};

struct sfs_stored {
    struct sfs_stored_key key; /* its place; changes only under the lock, with the table */
    int refs;                  /* atomic; the last drop is made under the lock */
    uint32_t rlen;
    uint8_t codec, ncsum;
    bool applied;              /* catalog rows name it */
    bool lost;                 /* pending, and its data could not be kept */
    bool kept;                 /* pending, and it stays where it is although a slab there has dropped out */
    bool detached;             /* in no table any more: its place was freed and written anew while somebody still held it. It is dead */
    UT_hash_handle hh;         /* sfs_data.stored, by key; unless detached */
    RB_ENTRY(sfs_stored) link; /* sfs_group.applied or .pending, by (end, goff, slen); unless detached */
    uint64_t csum[];
};
RB_HEAD(sfs_stored_tree, sfs_stored);
RB_PROTOTYPE(sfs_stored_tree, sfs_stored, link, sfs_stored_cmp)

struct sfs_member {
    struct sfs_disk_row row;
    struct sfs_disk *disk;     /* NULL: missing */
    uint64_t limit;            /* slots from here on are not given out: its capacity, or less while it is being lowered */
    uint64_t *slots;           /* bit set: taken by a slab, by the metadata area, or freed and not yet released */
    uint64_t free_slabs;       /* below the limit */
    bool full;                 /* the last slab_alloc found no room; retried after the next release */
    bool dirty;                /* written since its last sync */
    uint64_t repaired;         /* blocks rewritten from a good copy */
    LIST_ENTRY(sfs_member) link;
};

struct sfs_group {
    uint64_t id;
    struct sfs_volume *volume;
    struct sfs_geometry geo;
    enum sfs_group_kind kind;
    enum sfs_group_state state;
    bool state_dirty;          /* the catalog has another state */
    bool dropped;              /* rows deleted; its slots await release */
    struct sfs_slab_row slabs[SFS_MAX_SLABS_PER_GROUP]; /* by column * copies + copy */
    uint64_t blocks;           /* capacity */
    uint64_t used_blocks;      /* covered by rows or pending; valid when used_known */
    bool used_known;
    uint64_t waiting_blocks;   /* of those that aren't used: freed, and not yet released */
    uint64_t *bitmap;          /* open groups: bit set = not free for allocation; NULL until needed */
    uint64_t free_blocks;      /* clear bits, when bitmap */
    uint64_t row_blocks;       /* with parity: blocks of data in a row; else 0 */
    uint64_t clear_rows;       /* with parity, when bitmap: rows with no bit set */
    uint64_t free_rows;        /* with parity, when used_known: rows in which nothing is used */
    uint32_t *row_used;        /* with parity: used blocks by row */
    uint64_t cursor;           /* next-fit, in blocks */
    bool barren;               /* opened again, it had nothing to give: what is free in it isn't released yet. Until the next release */
    unsigned inflight;         /* writes under way: it cannot be dropped or moved */
    unsigned holds;            /* jobs that need it sealed */
    bool leaving;              /* the extent mover is emptying it */
    struct sfs_stored_tree pending, applied; /* the stored extents in memory that lie here */
    bool moving;               /* one of its slabs is being built: one at a time */
    UT_hash_handle hh;         /* sfs_data.groups, by id */
};

#define SFS_MAX_OPEN 12u        /* of all kinds; sfs_place_open_groups says at most 8 of one */
#define SFS_LANDING_MAX_BYTES (1ull << 30)
struct sfs_volume {
    struct sfs_data *data;
    struct sfs_space_row row;
    struct sfs_group *open[SFS_MAX_OPEN];
    unsigned nopen, turn;
    uint64_t reserved_bytes;
    uint64_t cut_bytes;        /* overwritten in extents of which pieces stay, since somebody last looked: so much dead space at most has been added */
    uint64_t moving_bytes;     /* moved to other groups by a transaction that isn't committed, or about to be: counted in both */
    uint64_t credit_bytes;     /* may be reserved without working out the room again; 0 whenever disks or settings change */
    bool tight;                /* what is reserved is much of the room that there is: rows aren't left with gaps */
    unsigned users;            /* fs/pool counts mounts */
    bool opening;              /* one thread opens a group; others wait */
    LIST_ENTRY(sfs_volume) link;
};

/* A run of blocks (or, with `slots`, a whole dropped group) on its way to be free. */
struct sfs_freed {
    uint64_t group, goff, len; /* bytes */
    bool slots;                /* release the group's slabs and forget it */
    int disk;                  /* != 0: one slot of this disk (a slab that was moved away) */
    uint32_t slot;
    uint64_t ticket;           /* of quiesce, once durable */
};
struct sfs_freed_list {
    struct sfs_freed *v;
    size_t n, cap;
};

struct sfs_commit_state {
    struct sfs_mutex lock;     /* SFS_RANK_COMMIT */
    struct sfs_cond changed;
    bool running, collected;   /* collected: past CUTOFF */
    bool stop, kicked;
    uint64_t started, durable; /* commits, by number */
    int last_result;
    struct sfs_thread *thread; /* commits that were kicked */
    struct sfs_commit_client *clients[64];
    unsigned nclients;
    struct sfs_mutex gate_lock; /* SFS_RANK_GATE; held inside the calls only */
    struct sfs_cond gate_changed;
    unsigned gate_inside;
    bool gate_closed;
};

/* damage.c */
enum sfs_damage_state { SFS_DAMAGE_NEW, SFS_DAMAGE_STORED, SFS_DAMAGE_GONE };
struct sfs_damage_entry {
    struct sfs_damage_row row;
    enum sfs_damage_state state;
    bool told;                 /* an event has named it */
    RB_ENTRY(sfs_damage_entry) link;
};
RB_HEAD(sfs_damage_tree, sfs_damage_entry);
RB_PROTOTYPE(sfs_damage_tree, sfs_damage_entry, link, entry_cmp)
struct sfs_damage_set {
    struct sfs_damage_tree tree; /* by group and place */
    unsigned n;                /* atomic: entries that are not GONE */
    bool dirty;                /* the catalog lags */
    struct sfs_repaired *repaired;
    unsigned nrepaired;
};

struct sfs_data {
    struct sfs_env *env;
    struct sfs_catalog *cat;
    struct sfs_quiesce *quiesce;
    uint64_t slab_bytes;
    struct sfs_mutex lock;
    struct sfs_cond changed;   /* a group was opened, space was released */
    LIST_HEAD(, sfs_member) members;
    LIST_HEAD(, sfs_volume) volumes, removed; /* removed: spaces that are gone; somebody may still be looking at one */
    struct sfs_group *groups;
    struct sfs_stored *stored;
    struct sfs_freed_list candidates; /* may have become free in the catalog's open transaction */
    struct sfs_freed_list moved;      /* slots that the open transaction's slab rows have left: they join `freed` when it is applied, so that no earlier commit releases them */
    struct sfs_freed_list freed;      /* freed by the open transaction */
    struct sfs_freed_list releasing;  /* durable, waiting for readers */
    uint64_t unreadable;              /* atomic: reads for which no good copy was found since the pool was opened */
    uint64_t program_ns;              /* atomic: when a program last read or wrote */
    bool readonly;                    /* atomic */
    char readonly_why[256];
    struct sfs_data_events events;
    struct sfs_damage_set damage;
    struct sfs_commit_state commit;
};

#define SFS_LOCK(d) sfs_mutex_lock(&(d)->lock)
#define SFS_UNLOCK(d) sfs_mutex_unlock(&(d)->lock)

static inline uint64_t sfs_blocks(uint64_t bytes)
{
    return (bytes + SFS_BLOCK - 1) / SFS_BLOCK;
}

/* diskset.c; lock held */
struct sfs_member *sfs_member_find(struct sfs_data *d, int id);
struct sfs_member *sfs_member_of(struct sfs_data *d, const struct sfs_disk *disk); /* by handle; NULL: it was detached */
bool sfs_member_online(const struct sfs_member *m);
bool sfs_member_takes_slabs(const struct sfs_member *m);
/* groups.c; lock held */
struct sfs_group *sfs_group_find(struct sfs_data *d, uint64_t id);
bool sfs_group_whole(struct sfs_data *d, const struct sfs_group *g);   /* every slab is there and online */
bool sfs_group_shaken(struct sfs_data *d, const struct sfs_group *g);  /* a slab that it should have is on a disk that is out of use */
void sfs_group_seal(struct sfs_group *g);
int sfs_group_size(struct sfs_group *g);                                     /* what follows from the geometry. 0 or -ENOMEM */
void sfs_group_free(struct sfs_group *g);                                    /* the memory; NULL is fine */
void sfs_group_use(struct sfs_group *g, uint64_t block, uint64_t n);         /* counts blocks as used */
void sfs_group_unuse(struct sfs_group *g, uint64_t block, uint64_t n);
bool sfs_slab_is_spare(struct sfs_data *d, const struct sfs_group *g, unsigned i); /* can all be read without slab i, from what is online? */
bool sfs_column_has_copy(struct sfs_data *d, const struct sfs_group *g, unsigned column); /* one that is online */
void sfs_slab_forget(struct sfs_data *d, struct sfs_slab_row *at);     /* it is nowhere from now on; its slot is released by the commit that says so */
bool sfs_group_takes_writes(struct sfs_data *d, const struct sfs_group *g);
/* bitmap.c: which blocks of a group are in use, from the extent index and what is on its way (rule 7) */
struct sfs_group_map {
    uint64_t *bits, blocks, used;
};
int sfs_group_map_rows(struct sfs_data *d, uint64_t id, struct sfs_group_map *m);            /* catalog lock held. -ENOENT: no such group */
void sfs_group_map_pending(struct sfs_data *d, const struct sfs_group *g, struct sfs_group_map *m); /* lock held: pending extents, and candidates */
void sfs_group_map_freed(struct sfs_data *d, const struct sfs_group *g, struct sfs_group_map *m);   /* lock held: what is freed and not yet released */
void sfs_group_map_free(struct sfs_group_map *m);
uint64_t sfs_bit_find(const uint64_t *map, uint64_t from, uint64_t end, bool value);         /* the first bit with that value in [from, end), or end */
uint64_t sfs_bits_set(uint64_t *map, uint64_t from, uint64_t end);                           /* how many were clear */
uint64_t sfs_bits_clear(uint64_t *map, uint64_t from, uint64_t end);                         /* how many were set */
/* allocate.c; no lock */
/* Takes up to want blocks, contiguous, in one of v's open groups of that kind (opening one when that helps), in-flight counted. 0; -ENOSPC; -ESTALE: the space has got parity meanwhile, data goes by rows. */
#define SFS_ALLOCATE_WHOLE 1u /* all or nothing */
#define SFS_ALLOCATE_LAST 2u  /* rather with slabs missing than not at all */
#define SFS_ALLOCATE_PAD 4u   /* rows that are filled in part only, too */
int sfs_allocate(struct sfs_volume *v, enum sfs_group_kind kind, uint64_t want, unsigned flags, struct sfs_group **g, uint64_t *block, uint64_t *got);
/* Takes clear rows that follow each other in one of v's open groups with parity, in-flight counted (once): as many as `blocks` fill, or fewer; but enough for whole_blocks in one piece unless there are no such. 0; -EAGAIN: it fills
 * no row; -ENOSPC: there are none; -ESTALE: the space has no parity any more. */
int sfs_allocate_rows(struct sfs_volume *v, uint64_t blocks, uint64_t whole_blocks, unsigned flags, struct sfs_group **g, uint64_t *row, uint64_t *rows);
void sfs_rows_give_back(struct sfs_data *d, struct sfs_group *g, uint64_t block, uint64_t n); /* blocks of rows taken that nothing was stored in, now or ever: free at once */
void sfs_allocate_done(struct sfs_data *d, struct sfs_group *g);  /* the write has ended */
/* allocate.c; lock held */
uint64_t sfs_stripe_bytes_of_new(struct sfs_data *d, const struct sfs_volume *v); /* user bytes in a stripe of a group that would be made now: its data columns times the interleave */
unsigned sfs_choose_columns(const struct sfs_volume *v, unsigned online, unsigned nfree); /* of a new group: online disks that hold slabs, those of them with room */
uint32_t sfs_slot_take(struct sfs_member *m);                                /* it has a free one */
void sfs_slot_give(struct sfs_data *d, int disk, uint32_t slot);
void sfs_bitmap_release(struct sfs_group *g, uint64_t block, uint64_t n);
unsigned sfs_landing_groups_max(struct sfs_data *d);                         /* of one volume */
uint64_t sfs_group_room_blocks(const struct sfs_group *g);
/* volume.c; lock held */
/* Takes the slabs of a landing group that v needs and hasn't made yet off the disks with most free ones. False: there is one, none is needed, or there are too few disks. */
bool sfs_landing_set_aside(struct sfs_data *d, const struct sfs_volume *v, uint64_t *slabs, unsigned n);
bool sfs_landing_pays(struct sfs_data *d, const struct sfs_volume *v); /* A further landing group doesn't cost rows that would hold more; or slabs are plenty */
/* freeing.c */
int sfs_freed_push(struct sfs_freed_list *l, const struct sfs_freed *f); /* lock held */
void sfs_candidate(struct sfs_data *d, uint64_t group, uint64_t goff, uint64_t len); /* lock held */
int sfs_freeing_apply(struct sfs_data *d);       /* catalog lock held: finds what candidates have set free, drops empty groups */
void sfs_freeing_durable(struct sfs_data *d);    /* no lock: what was freed before the commit just made durable */
void sfs_freeing_release(struct sfs_data *d);    /* no lock: releases what no reader can look at any more */
/* stored.c; lock held */
struct sfs_stored *sfs_stored_intern(struct sfs_data *d, const struct sfs_stored_key *key, uint32_t rlen, uint8_t codec, uint8_t ncsum, const uint64_t *csum, bool applied);
struct sfs_stored *sfs_stored_new(struct sfs_data *d, const struct sfs_stored_key *key, uint32_t rlen, uint8_t codec, uint8_t ncsum, const uint64_t *csum); /* just written: pending */
void sfs_stored_set_applied(struct sfs_data *d, struct sfs_stored *s);
void sfs_stored_move(struct sfs_data *d, struct sfs_stored *s, uint64_t group, uint64_t goff); /* another place, same bytes */
/* The same for all that lie wholly in [lo, hi) of a group, whole ones and pieces, at once. What reaches beyond stays. */
void sfs_stored_move_range(struct sfs_data *d, struct sfs_group *from, uint64_t lo, uint64_t hi, struct sfs_group *to, uint64_t goff);
void sfs_stored_detach_all(struct sfs_data *d, struct sfs_group *g);     /* the group is going */
/* Those that overlap [from, to): for (s = first(t, from); s && may_overlap(s, to); s = RB_NEXT(…)) if (s->key.goff < to) … */
struct sfs_stored *sfs_stored_first(struct sfs_stored_tree *t, uint64_t from); /* the first, by end, that ends beyond `from` */
static inline uint64_t sfs_stored_end(const struct sfs_stored *s)
{
    return s->key.goff + sfs_blocks(s->key.slen) * SFS_BLOCK;
}
static inline bool sfs_stored_may_overlap(const struct sfs_stored *s, uint64_t to)
{
    return sfs_stored_end(s) < to + SFS_EXTENT_MAX; /* none is longer */
}
/* reader.c: verified stored bytes [from, to) of s, bounds rounded out to checksum granules, into a new buffer; *start = the first byte in it. 0, -EIO, -ENOMEM. Inside quiesce */
int sfs_fetch_stored(struct sfs_data *d, struct sfs_stored *s, uint32_t from, uint32_t to, struct sfs_buf **out, uint32_t *start);
/* reader.c: every copy of a stored extent against its checksums; bad copies are counted and repaired, an extent with a granule that has no good copy counts as lost. Inside quiesce */
int sfs_check_stored(struct sfs_data *d, struct sfs_stored *s, uint64_t *bad, uint64_t *lost);
/* damage.c */
void sfs_damage_note(struct sfs_data *d, struct sfs_stored *s, unsigned i); /* checksum i of s holds on no copy. No lock */
void sfs_damage_good(struct sfs_data *d, struct sfs_stored *s, unsigned i); /* it holds. No lock */
void sfs_damage_freed(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to); /* lock held: nothing names that place any more */
int sfs_damage_apply(struct sfs_data *d);                                   /* catalog lock held: into the open transaction */
void sfs_repaired_note(struct sfs_data *d, const struct sfs_stored *s, int disk); /* lock held: one block of s is rewritten on that disk */
void sfs_damage_fini(struct sfs_data *d);
/* repair.c: calls fn for every distinct stored extent that a group's rows place in [from, to), in order of place, inside quiesce. Stops at non-zero */
int sfs_each_stored(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to, int (*fn)(void *ctx, struct sfs_stored *s, uint64_t ino), void *ctx);
void sfs_data_note_program(struct sfs_data *d);  /* data.c: a program reads or writes now */
void sfs_data_set_readonly(struct sfs_data *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sfs_data_event(struct sfs_data *d, const char *severity, const char *kind, int disk, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
