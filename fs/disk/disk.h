/* Disks: one narrow interface over three backends (dir, image, sim).
 *
 * Each call checks state and ranges, then dispatches; backends (backend.h) need no defensive code. Data I/O goes
 * through a queue with worker threads per disk, so that all copies of a write run at once and a disk that does not answer holds up nobody for longer
 * than the time-out: the caller gets -ETIMEDOUT, the disk turns SFS_DISK_STALLED.
 *
 * State of a disk: ONLINE -> FAILED (write or sync error other than ENOSPC, and than ENOENT for one slab whose file was deleted; or read errors when its identity is gone) | STALLED | GONE (the label
 * is no longer where it was: unplugged, renamed, unmounted, truncated, detached). All three are final for this handle: every later call
 * returns -ENODEV at once; the owner closes it and may open the disk again. A sync error is final too: what was written since the last good sync is unknown
 * (never retried). Thread-safe throughout. Locks: SFS_RANK_DISK, SFS_RANK_DISKMETA, inside only. */
#ifndef SFS_DISK_DISK_H
#define SFS_DISK_DISK_H

#include "fs/base/buf.h"
#include "fs/disk/label.h"

struct sfs_disk;
struct sfs_sim_world;

enum sfs_media { SFS_MEDIA_UNKNOWN = 0, SFS_MEDIA_SSD = 1, SFS_MEDIA_HDD = 2 };
enum sfs_disk_state { SFS_DISK_ONLINE, SFS_DISK_FAILED, SFS_DISK_STALLED, SFS_DISK_GONE };

/* What a path is, looked at without changing anything. */
struct sfs_disk_probe {
    enum sfs_disk_kind kind;
    uint64_t size_bytes;           /* of the device or file; for a directory what its host has free, less a reserve */
    enum sfs_media media;
    bool has_label;                /* label below is valid (decoded) */
    int label_rc;                  /* result of sfs_label_decode, -ENOENT for none */
    struct sfs_label label;
    bool label_stale;              /* one of its two copies is damaged, or older: written anew when the disk is opened for writing */
    char signature[64];            /* a foreign signature found by libblkid ("ext4", "dos partition table"), else "" */
    bool holds_data;               /* a file without label or signature that is not all zeros, as far as samples of it show */
    uint64_t dev, ino;             /* identity of the directory, file or block device: the same disk twice under two paths */
    uint64_t host_dev;             /* device it lies on: two disks on the same device */
};
/* Clear errors: not there, neither directory nor file nor block device, no permission, in use. "sim:NAME" names a disk of world. */
int sfs_disk_probe(struct sfs_env *env, const char *path, struct sfs_sim_world *world, struct sfs_disk_probe *out, struct sfs_error *err);

/* Format a disk: makes its structures and writes the label (image: the metadata area too). Refuses what probe shows to be in use unless force: a label of a pool
 * (-EEXIST), a foreign signature, a file that holds data. A directory's other files stay untouched; it only needs to be writable. Capacity: `want_bytes`, 0 = all there is.
 * Fills label->capacity_slabs. Image: label at the front, metadata area, slots, copy of the label at the end. */
int sfs_disk_format(struct sfs_env *env, const char *path, struct sfs_sim_world *world, uint64_t want_bytes, bool force,
                    struct sfs_label *label, struct sfs_error *err);
/* Takes the label (and all that is ours) off a disk again. Only when it bears the given pool's uuid. */
int sfs_disk_wipe(struct sfs_env *env, const char *path, struct sfs_sim_world *world, const struct sfs_uuid *pool, struct sfs_error *err);

struct sfs_disk_opts {
    struct sfs_sim_world *world;   /* for sim disks */
    bool readonly;
    uint64_t timeout_ns;           /* 0 = 30 s: longest time a request may take before the disk counts as stalled */
    unsigned workers;              /* threads for data I/O; 0 = 4 */
    /* Instead of a label that is lost in both copies: the disk is opened as if it bore this one, an image laid out for its present size. Whether it is that disk is the caller's to find out; nothing of the label is written
     * before sfs_disk_write_label. -EEXIST: it bears one that can be read, or something else's signature. Kind and layout are filled in; capacity_slabs must fit. */
    const struct sfs_label *assume;
};
/* Opens by path (an absolute one: sfs_disk_check looks there again), takes the lock (one process: flock; -EBUSY with words when
 * another has it) and reads the label. A damaged front label is read from its copy and mended (not if readonly). */
int sfs_disk_open(struct sfs_env *env, const char *path, const struct sfs_disk_opts *opts, struct sfs_disk **out, struct sfs_error *err);
/* A further hold on a handle, for whoever uses it without being its owner: calls after the owner's close return -ENODEV, and the memory stays. The lock on the label goes with the close, unless a request is
 * stuck in the kernel: then with the last of those, so that it cannot land on what somebody else has written meanwhile. */
struct sfs_disk *sfs_disk_ref(struct sfs_disk *d);
void sfs_disk_put(struct sfs_disk *d);   /* NULL is fine */
void sfs_disk_close(struct sfs_disk *d); /* NULL is fine. Waits for workers, except those stuck in the kernel, which are left behind */

const char *sfs_disk_path(const struct sfs_disk *d);
enum sfs_disk_kind sfs_disk_kind(const struct sfs_disk *d);
enum sfs_media sfs_disk_media(const struct sfs_disk *d);
/* A directory's filesystem: all disks with the same draw on its free space (sfs_disk_meta_free_bytes). 0: no directory. */
uint64_t sfs_disk_host_dev(const struct sfs_disk *d);
enum sfs_disk_state sfs_disk_state(struct sfs_disk *d);
const char *sfs_disk_state_why(struct sfs_disk *d);  /* "write error: Input/output error"; "" when online; valid until close */
/* An image whose label was whole at the front and gone from the end when it was opened: it must have been made shorter and longer again, and lost what was in between. */
bool sfs_disk_end_lost(const struct sfs_disk *d);
/* Out of use, and a request that it was given before is still held up in the kernel: looking at its path would be, too. */
bool sfs_disk_is_stuck(struct sfs_disk *d);
void sfs_disk_fence(struct sfs_disk *d, enum sfs_disk_state state, const char *why); /* takes it out of use; first call wins */
/* Called once, from any thread with no disk lock held, when the disk leaves ONLINE. */
void sfs_disk_on_state(struct sfs_disk *d, void (*fn)(struct sfs_disk *, void *), void *ctx);
/* Looks whether the disk is still what and where it was (label's inode, file size, loop device not being detached). 0, or fences it and -ENODEV. */
int sfs_disk_check(struct sfs_disk *d);
struct sfs_disk_counters {
    uint64_t read_errors, write_errors, sync_errors, reads, writes, syncs, read_bytes, write_bytes;
    uint32_t queued; /* requests waiting or running: "less busy disk" */
};
void sfs_disk_counters(struct sfs_disk *d, struct sfs_disk_counters *out);

/* The label as last read or written. Written atomically: dir by rename, image copy first, then front, each synced. */
void sfs_disk_label(struct sfs_disk *d, struct sfs_label *out);
int sfs_disk_write_label(struct sfs_disk *d, const struct sfs_label *l);

/* Makes the disk give that many slabs, more than so far (else nothing is done); the label says so on return. An image: up
 * to the size that its file or device has now. -ENOSPC with the numbers. */
int sfs_disk_grow(struct sfs_disk *d, uint64_t slabs, struct sfs_error *err);

/* --- slabs: slots 0..capacity_slabs-1 --------------------------------------------------------- */
/* dir: makes and preallocates the slab file (-ENOSPC: host full; -EDQUOT, -EFBIG likewise count as no space); image: nothing, but -EBUSY for a slot
 * that the metadata area has claimed. Idempotent. */
int sfs_disk_slab_alloc(struct sfs_disk *d, uint32_t slot);
/* dir: deletes the file; image: discards the range where that works. Idempotent. */
int sfs_disk_slab_free(struct sfs_disk *d, uint32_t slot);
bool sfs_disk_slot_claimed(struct sfs_disk *d, uint32_t slot); /* image: taken by the metadata area */
/* Lists slots for which the disk holds a slab file (dir) so that orphans can be freed: calls fn for each. Image: nothing to do. */
int sfs_disk_slab_list(struct sfs_disk *d, void (*fn)(uint32_t slot, void *ctx), void *ctx);

enum sfs_io_op { SFS_IO_READ, SFS_IO_WRITE, SFS_IO_SYNC };
struct sfs_io {
    enum sfs_io_op op;
    struct sfs_disk *disk;
    uint32_t slot;        /* ignored by SYNC, which makes all completed slab writes of the disk durable */
    uint64_t off;         /* bytes into the slab; any alignment, 4 KiB is best */
    uint32_t len;
    struct sfs_buf *buf;  /* the queue takes its own reference */
    size_t buf_off;
    int result;           /* 0 or -errno; -ENODEV disk out of use, -ETIMEDOUT it just stalled, -EIO, -ENOSPC … */
};
/* Runs all n requests in parallel and returns when each has its result. Short reads and writes are completed inside (EINTR, partial) or are errors.
 * Returns the number of requests that failed. */
unsigned sfs_io_run(struct sfs_io *ios, unsigned n);

/* --- metadata area: a few named files ("catalog.db", "catalog.db-wal", "snapshot-N") ---------- */
/* Names: at most 31 bytes of [a-z0-9.-]. dir: a file in .spacesfs/catalog/ each; image: chunks listed in a metadata map (two copies with sequence and checksum,
 * the older one is overwritten), growing by claiming slots from the top, which on_claim (below) must allow. Calls are synchronous, bounded by the time-out,
 * and fence the disk on write and sync errors. Read past the end: short count. */
int64_t sfs_disk_meta_size(struct sfs_disk *d, const char *name);   /* bytes, -ENOENT. After a reopen an image may report up to one chunk more than was written */
int64_t sfs_disk_meta_read(struct sfs_disk *d, const char *name, void *buf, size_t len, uint64_t off);
int sfs_disk_meta_write(struct sfs_disk *d, const char *name, const void *buf, size_t len, uint64_t off); /* makes the file if need be */
int sfs_disk_meta_truncate(struct sfs_disk *d, const char *name, uint64_t size);
int sfs_disk_meta_sync(struct sfs_disk *d, const char *name);       /* data, size, existence */
int sfs_disk_meta_delete(struct sfs_disk *d, const char *name);     /* 0 also when it isn't there */
int sfs_disk_meta_list(struct sfs_disk *d, void (*fn)(const char *name, uint64_t size, void *ctx), void *ctx);
/* Image: asks the owner for a slot for the metadata area: the callback returns a free slot, never to be given to a slab
 * again, or -ENOSPC. It runs on a worker of the disk with no disk lock held, while the caller of sfs_disk_meta_write waits: it
 * must not take a lock that such a caller may hold, nor use this disk. A claim is durable with the next meta_sync of any file;
 * until then a crash gives the slot back. */
void sfs_disk_on_claim(struct sfs_disk *d, int64_t (*fn)(struct sfs_disk *, void *), void *ctx);
/* Room left for the metadata area. Image: growth by claims included, as far as its map allows it and the owner has so many free slots to grant. */
uint64_t sfs_disk_meta_free_bytes(struct sfs_disk *d, uint64_t slots);
/* The same, of a disk that may not answer: -errno, and *bytes untouched. */
int sfs_disk_meta_room(struct sfs_disk *d, uint64_t slots, uint64_t *bytes);

#endif
