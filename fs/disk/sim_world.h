/* Inside the sim only: what sim.c (backend), sim_store.c (bytes) and sim_faults.c (world and faults) share.
 *
 * A block is 4 KiB. `durable` is what a crash cannot take; `pending` was written since. A name in the
 * metadata area likewise leads to an inode now, and led to one (or none) when it was last synced. A crash
 * chooses between them, block by block and name by name, by the env's random numbers. Running out of memory
 * is a bug here: this is for tests. */
#ifndef SFS_DISK_SIM_WORLD_H
#define SFS_DISK_SIM_WORLD_H

#include <sys/queue.h>
#include <uthash.h>
#include "fs/base/env.h"
#include "fs/disk/backend.h"
#include "fs/disk/label_format.h"
#include "fs/disk/sim.h"

#define SFS_SIM_BLOCK 4096u

struct sfs_sim_block;
struct sfs_sim_store {
    struct sfs_sim_block *blocks;
};
void sfs_simstore_read(const struct sfs_sim_store *s, uint64_t off, uint8_t *out, size_t len);
void sfs_simstore_write(struct sfs_sim_store *s, uint64_t off, const uint8_t *data,
                        size_t len); /* data NULL: zeros */
/* Each block of it by chance: a write that failed or was cut off. */
void sfs_simstore_write_some(struct sfs_sim_store *s, struct sfs_env *env, uint64_t off, const uint8_t *data,
                             size_t len);
void sfs_simstore_sync(struct sfs_sim_store *s);
void sfs_simstore_resolve(struct sfs_sim_store *s,
                          struct sfs_env *env); /* crash: each block kept, lost or torn */
void sfs_simstore_drop(struct sfs_sim_store *s,
                       struct sfs_env *env); /* failed sync: each block kept or lost */
void sfs_simstore_flip(struct sfs_sim_store *s, struct sfs_env *env, uint64_t off, size_t len);
void sfs_simstore_copy(struct sfs_sim_store *to,
                       const struct sfs_sim_store *from); /* what reads show, as durable */
void sfs_simstore_clear(struct sfs_sim_store *s);

struct sfs_sim_inode {
    int refs;
    uint64_t size, durable_size;
    struct sfs_sim_store store;
};

struct sfs_sim_file {
    LIST_ENTRY(sfs_sim_file) link;
    char name[SFS_MAP_NAME];
    struct sfs_sim_inode *now, *durable; /* a reference each; NULL: no such file */
};
LIST_HEAD(sfs_sim_files, sfs_sim_file);

/* All that a disk remembers. */
struct sfs_sim_contents {
    bool has_label;
    uint8_t *label; /* SFS_LABEL_BYTES, always durable */
    uint32_t nslots;
    uint8_t *slots, *slots_durable; /* 1: allocated */
    struct sfs_sim_store slabs;
    struct sfs_sim_files files;
};
void sfs_simcontents_init(struct sfs_sim_contents *c);
void sfs_simcontents_copy(struct sfs_sim_contents *to, const struct sfs_sim_contents *from);
void sfs_simcontents_resolve(struct sfs_sim_contents *c, struct sfs_env *env);
void sfs_simcontents_clear(struct sfs_sim_contents *c); /* frees all; blank again */
struct sfs_sim_file *sfs_simcontents_find(struct sfs_sim_contents *c, const char *name);
void sfs_siminode_set(struct sfs_sim_inode **slot, struct sfs_sim_inode *inode); /* moves a reference */

struct sfs_sim_fault {
    uint64_t nth; /* 0: none */
    bool sticky, on;
};

struct sfs_sim_disk {
    LIST_ENTRY(sfs_sim_disk) link;
    char name[64];
    uint64_t size_bytes;
    enum sfs_media media;
    uint64_t number; /* stands for its inode */
    struct sfs_sim_contents contents, saved;
    bool has_saved;
    bool present, stalled, full;
    bool open;                      /* by a handle of this epoch */
    uint64_t epoch;                 /* handles of earlier ones are dead */
    struct sfs_sim_fault fail[3];   /* by enum sfs_io_op */
    uint64_t misdirect_in, lose_in; /* slab writes from now, 0 = never */
};

struct sfs_sim_world {
    struct sfs_env *env;
    struct sfs_mutex m; /* SFS_RANK_LEAF: all below */
    struct sfs_cond c;  /* something a stalled request waits for */
    LIST_HEAD(, sfs_sim_disk) disks;
    uint64_t ndisks, io_count, crash_in;
    bool crash_kill_only, crashed;
};
/* With w->m held. */
struct sfs_sim_disk *sfs_simworld_find(struct sfs_sim_world *w,
                                       const char *name); /* "sim:" before it or not; NULL: no such disk */
void sfs_simworld_crash(struct sfs_sim_world *w, bool kill_only);
bool sfs_sim_coin(struct sfs_env *env);

/* sim.c: a handle, and one step under the world's lock. */
struct sfs_sim_handle {
    struct sfs_backend b;
    struct sfs_sim_world *w;
    struct sfs_sim_disk *disk;
    uint64_t epoch;
    bool cancelled;
};
bool sfs_simhandle_alive(const struct sfs_sim_handle *h); /* with w->m held */

enum sfs_sim_fate { SFS_SIM_FATE_DONE, SFS_SIM_FATE_FAIL, SFS_SIM_FATE_CRASH };

struct sfs_sim_step {
    struct sfs_sim_handle *h;
    struct sfs_sim_world *w;
    struct sfs_sim_disk *disk;
    struct sfs_sim_contents *c;
    enum sfs_sim_fate fate;
};
/* Takes the world's lock. -ENODEV: no, the handle is dead. */
int sfs_simstep_begin(struct sfs_sim_step *s, struct sfs_backend *b, enum sfs_io_op op);
int64_t sfs_simstep_end(struct sfs_sim_step *s,
                        int64_t rc); /* lets go of it; returns rc, or what its fate is */
bool sfs_simstep_applies(const struct sfs_sim_step *s);
void sfs_simstep_write(const struct sfs_sim_step *s, struct sfs_sim_store *store, uint64_t off,
                       const uint8_t *data, size_t len);

/* sim_meta.c */
int64_t sfs_sim_meta_size(struct sfs_backend *b, const char *name);
int sfs_sim_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n);
int64_t sfs_sim_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len);
int sfs_sim_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf, size_t len);
int sfs_sim_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size);
int sfs_sim_meta_sync(struct sfs_backend *b, const char *name);
int sfs_sim_meta_delete(struct sfs_backend *b, const char *name);
int64_t sfs_sim_meta_free_bytes(struct sfs_backend *b, uint32_t slots);

#endif
