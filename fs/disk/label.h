/* A disk's label: who it is, which pool it belongs to, what it last saw. Bytes on disk: label_format.h. Untrusted input. */
#ifndef SFS_DISK_LABEL_H
#define SFS_DISK_LABEL_H

#include <stdbool.h>
#include <stdint.h>
#include "fs/base/error.h"
#include "fs/base/uuid.h"

#define SFS_NAME_MAX 64       /* bytes of a pool's, space's or disk's name, without NUL */
#define SFS_LABEL_HISTORY 64  /* ids of earlier epochs kept */
#define SFS_LABEL_PEERS 64    /* disks of a pool at most */
#define SFS_PATH_BYTES 512
#define SFS_SLOTS_MAX (1ull << 28) /* slots of a disk: tables with an entry for each are kept in memory, and gone through */

enum sfs_disk_kind { SFS_DISK_DIR = 1, SFS_DISK_IMAGE = 2, SFS_DISK_SIM = 3 }; /* on-disk values */

/* DESIGN.md section 7: losing or gaining a catalog replica bumps the epoch. */
struct sfs_epoch {
    uint64_t number;
    struct sfs_uuid id;                             /* random, of this epoch */
    uint32_t nhistory;
    struct sfs_uuid history[SFS_LABEL_HISTORY];     /* ids of epochs number-1, number-2, … */
};

struct sfs_label_peer {
    struct sfs_uuid uuid;
    char name[SFS_NAME_MAX + 1];
    char path[SFS_PATH_BYTES]; /* where it was last seen; a hint only */
    bool replica;              /* held a catalog replica in this epoch */
};

/* Where things lie on an image; all zero for directories. Set by sfs_disk_format; only image_bytes changes after (sfs_disk_grow); label_format.h draws it. */
struct sfs_image_layout {
    uint64_t image_bytes;      /* size of the file or device when it was formatted, or last grown */
    uint64_t map_off, meta_off, slots_off;
    uint32_t map_bytes;        /* of one of the two copies of the metadata map */
    uint32_t chunk_bytes;      /* unit of the metadata area */
    uint32_t base_chunks;      /* chunks at meta_off; more come from claimed slots */
    uint32_t max_chunks;       /* what the map can hold */
};

struct sfs_label {
    uint32_t format;           /* SFS_FORMAT_VERSION */
    enum sfs_disk_kind kind;   /* set by sfs_disk_format, as are generation and layout */
    uint64_t generation;       /* counts writes: the newer of two copies wins. Counted by sfs_disk_write_label */
    uint64_t compat, ro_compat, incompat; /* feature bits */
    struct sfs_uuid pool_uuid, disk_uuid;
    char pool_name[SFS_NAME_MAX + 1], disk_name[SFS_NAME_MAX + 1];
    uint64_t slab_bytes;       /* of the pool */
    uint64_t capacity_slabs;   /* slots on this disk */
    bool replica;              /* this disk holds a catalog replica, current in `epoch` */
    struct sfs_epoch epoch;    /* the newest this disk has seen */
    struct sfs_image_layout layout;
    uint32_t npeers;
    struct sfs_label_peer peers[SFS_LABEL_PEERS]; /* all disks of the pool, this one included */
};
#define SFS_FORMAT_VERSION 1u

/* Encoded size is SFS_LABEL_BYTES (label_format.h). Decode checks magic, checksum, lengths and ranges: 0; -EUCLEAN damaged; -ENOENT not a label
 * (wrong magic); -EOPNOTSUPP a format or incompat bit this program does not know (words in err). */
void sfs_label_encode(const struct sfs_label *l, uint8_t *out);
int sfs_label_decode(const uint8_t *bytes, struct sfs_label *out, struct sfs_error *err);

#endif
