/* Inside the image backend only: what image.c (file or device, label, slabs), image_format.c and image_meta.c
 * (metadata area) share.
 *
 * All syncs go through sfs_image_flush: the kernel tells a failed write-back to one caller alone, so they are
 * made one at a time and the first error is kept for all. `written` counts writes of any kind, after each; a
 * flush that finds all of them synced has nothing to do, so that those who waited for another's flush mostly
 * return at once.
 *
 * Locks: label_m or grow_m, then sync_m (all SFS_RANK_DISKMETA, sync_m taken nested and always last; all held
 * across I/O), then state_m or map_m (SFS_RANK_LEAF, never across I/O). */
#ifndef SFS_DISK_IMAGE_H
#define SFS_DISK_IMAGE_H

#include <sys/queue.h>
#include "fs/base/env.h"
#include "fs/disk/backend.h"
#include "fs/disk/label_format.h"

/* A metadata file. Its chunks' bytes beyond `size` are zeros unless tail_dirty. */
struct sfs_image_file {
    LIST_ENTRY(sfs_image_file) link;
    char name[SFS_MAP_NAME];
    uint64_t size;
    uint64_t disk_size; /* what the map on disk says */
    bool grown; /* by writing: the map says the size rounded up, so that it need not be written each time */
    bool tail_dirty;
    uint32_t *chunks, nchunks, cap;
};
LIST_HEAD(sfs_image_files, sfs_image_file);
enum sfs_chunk_state {
    SFS_CHUNK_FREE,
    SFS_CHUNK_USED,
    SFS_CHUNK_FREED, /* given up, but still named by the map on disk */
};

struct sfs_image {
    struct sfs_backend b;
    int fd;
    bool is_block, is_loop, loop_autoclear;
    uint64_t dev, ino, rdev;
    struct sfs_uuid disk_uuid;
    struct sfs_image_layout layout;

    struct sfs_mutex label_m, sync_m;
    struct sfs_mutex state_m; /* the next three */
    uint64_t written;
    uint8_t *slot_dirty; /* a byte a slot */
    int sync_rc;         /* first sync error, final */
    uint64_t synced;     /* sync_m */

    struct sfs_mutex grow_m; /* every change of files, chunks and claims, and writing the map */
    uint8_t *map_buf;        /* grow_m; layout.map_bytes */
    uint64_t map_sequence;   /* grow_m; of the copy that counts */
    unsigned map_copy;       /* grow_m; which one that is, 0 or 1 */
    bool map_dirty;          /* grow_m */
    struct sfs_mutex map_m;  /* all below, together with grow_m when written */
    struct sfs_image_files files;
    unsigned nfiles;
    uint32_t *claims, nclaims, max_claims;
    uint8_t *chunks; /* enum sfs_chunk_state, layout.max_chunks of them */
    uint32_t nfree, nfreed, next_chunk;
};

uint64_t sfs_image_copy_off(uint64_t image_bytes); /* where the copy of the label lies */
int sfs_image_lock(struct sfs_env *env, const char *path, bool readonly, int *fd, struct sfs_error *err);
int sfs_image_write_label(int fd, uint64_t image_bytes, const uint8_t *bytes);
void sfs_image_wrote(struct sfs_image *im);
int sfs_image_flush(struct sfs_image *im, struct sfs_request *rq);

/* image_format.c */
/* The layout that an image of that size was given when it was formatted; -EUCLEAN when label->capacity_slabs don't fit. */
int sfs_image_layout_again(struct sfs_label *label, uint64_t image_bytes);
bool sfs_image_layout_ok(const struct sfs_label *l);
uint32_t sfs_image_max_claims(const struct sfs_image_layout *y, uint64_t slab_bytes);

/* image_map.c; all but the first two with grow_m held */
/* Bytes of an empty map. */
void sfs_image_map_blank(const struct sfs_uuid *disk, uint64_t sequence, uint8_t *out, size_t out_bytes);
/* With grow_m or map_m held. */
struct sfs_image_file *sfs_image_file_find(struct sfs_image *im, const char *name);
int sfs_image_map_read(struct sfs_image *im);
int sfs_image_map_write(struct sfs_image *im); /* and syncs; freed chunks are free from here on */
int sfs_image_file_new(struct sfs_image *im, const char *name, struct sfs_image_file **out);
void sfs_image_file_free(struct sfs_image_file *f);
uint64_t sfs_image_file_rounded(const struct sfs_image *im, const struct sfs_image_file *f);
int sfs_image_claim_add(struct sfs_image *im, uint32_t slot);
uint32_t sfs_image_total_chunks(const struct sfs_image *im);
uint64_t sfs_image_chunk_off(const struct sfs_image *im, uint32_t chunk); /* with grow_m or map_m held */

/* image_meta.c */
int sfs_image_meta_init(struct sfs_image *im); /* once layout is known; reads the map */
void sfs_image_meta_fini(struct sfs_image *im);
int sfs_image_settle(struct sfs_backend *b);
bool sfs_image_slot_claimed(struct sfs_backend *b, uint32_t slot);
int64_t sfs_image_meta_size(struct sfs_backend *b, const char *name);
int sfs_image_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n);
size_t sfs_image_meta_read_nowait(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf,
                                  size_t len);
int64_t sfs_image_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len);
int sfs_image_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf,
                         size_t len);
int sfs_image_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size);
int sfs_image_meta_sync(struct sfs_backend *b, const char *name);
int sfs_image_meta_delete(struct sfs_backend *b, const char *name);
int64_t sfs_image_meta_free_bytes(struct sfs_backend *b, uint32_t slots);

#endif
