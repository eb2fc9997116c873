/* Sim disks: in memory, for the simulator and for tests. A world holds disks that outlive their handles, as real ones do.
 * Fault model: tests/README.md. All faults are drawn from the env's seed or asked for by count, never by time. */
#ifndef SFS_DISK_SIM_H
#define SFS_DISK_SIM_H

#include "fs/disk/disk.h"

struct sfs_sim_world *sfs_sim_world_new(struct sfs_env *env);
void sfs_sim_world_free(struct sfs_sim_world *w);
/* A blank disk "sim:NAME" of that size. */
int sfs_sim_add(struct sfs_sim_world *w, const char *name, uint64_t size_bytes, enum sfs_media media);

/* Crash of the machine: from now every call on every open handle returns -ENODEV (close them, then reopen). Of the writes not synced since, each 4 KiB block
 * independently is kept, lost, or (torn) kept in part by 512 bytes; file creations, deletions and sizes of the metadata area likewise old or new.
 * kill_only: the daemon died, the machine did not: all completed writes survive. */
void sfs_sim_crash(struct sfs_sim_world *w, bool kill_only);
void sfs_sim_revive(struct sfs_sim_world *w);          /* after a crash: handles opened from here on work */
/* Crash by itself at the n-th write, sync, label or metadata call from now, over all disks (0 = never). */
void sfs_sim_crash_at(struct sfs_sim_world *w, uint64_t nth_io, bool kill_only);
bool sfs_sim_crashed(const struct sfs_sim_world *w);
uint64_t sfs_sim_io_count(const struct sfs_sim_world *w); /* such calls so far: for sweeps */

/* Faults on one disk. */
void sfs_sim_fail_at(struct sfs_sim_world *w, const char *name, enum sfs_io_op op, uint64_t nth, bool sticky); /* -EIO at the nth such call from now */
void sfs_sim_vanish(struct sfs_sim_world *w, const char *name);          /* unplugged: unsynced writes are lost as in a crash */
void sfs_sim_return(struct sfs_sim_world *w, const char *name);          /* plugged in again, as it was */
void sfs_sim_stall(struct sfs_sim_world *w, const char *name, bool on);  /* requests do not end (until off) */
void sfs_sim_full(struct sfs_sim_world *w, const char *name, bool on);   /* slab_alloc and metadata growth: -ENOSPC */
void sfs_sim_rot(struct sfs_sim_world *w, const char *name, uint32_t slot, uint64_t off, uint32_t len);  /* flips bits in a slab */
void sfs_sim_lose_label(struct sfs_sim_world *w, const char *name);      /* its label can't be read any more */
int sfs_sim_rot_meta(struct sfs_sim_world *w, const char *name, const char *file, uint64_t off, uint32_t len);
void sfs_sim_misdirect_at(struct sfs_sim_world *w, const char *name, uint64_t nth_write); /* the nth slab write goes to another block of the same slab */
void sfs_sim_lose_write_at(struct sfs_sim_world *w, const char *name, uint64_t nth_write);/* the nth slab write reports success and is dropped */
void sfs_sim_save(struct sfs_sim_world *w, const char *name);            /* remembers its contents … */
void sfs_sim_restore(struct sfs_sim_world *w, const char *name);         /* … and comes back as it was then: older */
/* Reads durable and volatile contents, past all faults; for oracles. */
int sfs_sim_peek(struct sfs_sim_world *w, const char *name, uint32_t slot, uint64_t off, void *out, uint32_t len);

#endif
