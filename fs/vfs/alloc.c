/* fallocate(2) and lseek(2) for data and holes; where a file lies. */
#include "fs/vfs/vfs_impl.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Would the holes in [from, to) fit now? Nothing is set aside: blocks are allocated when they are written. */
static int room_for_holes(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    struct sfs_volume_stat vs;
    uint64_t holes = 0, off = from;

    while (off < to) {
        /* Beyond the size all is a hole. */
        uint64_t data = off < i->row.size ? sfs_inode_next_data(i, off) : to;
        if (data == i->row.size || data > to)
            data = to;
        holes += data - off;
        off = data < to ? sfs_inode_next_hole(i, data) : to;
    }
    sfs_volume_stat(i->vfs->volume, &vs);
    return holes > vs.avail_bytes ? -ENOSPC : 0;
}

/* Everything is in the map, or stays inline: for changes that move extents. Lock and `modifying` held. */
static int settle(struct sfs_inode *i)
{
    int rc;

    sfs_mutex_unlock(&i->lock);
    rc = sfs_flush_inode(i);
    sfs_mutex_lock(&i->lock);
    if (rc || i->dirty.ndirty == 0)
        return rc;
    return -EIO;
}

static int collapse(struct sfs_inode *i, uint64_t off, uint64_t len)
{
    int rc;

    if (off % SFS_BLOCK || len % SFS_BLOCK || off + len >= i->row.size)
        return -EINVAL;
    rc = settle(i);
    if (rc)
        return rc;
    rc = sfs_map_prepare(&i->map, 1);
    if (rc)
        return rc;
    if (off == 0)
        sfs_inode_drop_inline(i); /* it is in the first block */
    sfs_map_punch(&i->map, off, off + len);
    sfs_map_shift(&i->map, off + len, -(int64_t)len);
    i->row.size -= len;
    if (i->base_size > i->row.size)
        i->base_size = i->row.size;
    sfs_inode_touch(i, true);
    return 0;
}

/* Inline contents are stored as an extent, so that they can move. */
static int inline_to_extent(struct sfs_inode *i)
{
    uint32_t n = i->inline_len;
    uint8_t *copy = malloc(n);
    size_t done;
    int rc;

    if (!copy)
        return -ENOMEM;
    memcpy(copy, i->inline_data, n);
    i->no_inline = true;
    rc = sfs_inode_write(i, copy, n, 0, &done);
    free(copy);
    if (!rc && done < n)
        rc = -ENOSPC;
    if (!rc)
        rc = settle(i);
    i->no_inline = false;
    return rc;
}

static int insert(struct sfs_inode *i, uint64_t off, uint64_t len)
{
    int rc;

    if (off % SFS_BLOCK || len % SFS_BLOCK || off >= i->row.size)
        return -EINVAL;
    if (len > SFS_OFFSET_MAX - i->row.size)
        return -EFBIG;
    rc = settle(i);
    if (rc)
        return rc;
    if (i->inline_len && off == 0) {
        rc = inline_to_extent(i);
        if (rc)
            return rc;
    }
    rc = sfs_map_prepare(&i->map, 1);
    if (rc)
        return rc;
    struct sfs_map_node *n = sfs_map_find(&i->map, off);
    if (n && n->e.off < off) { /* a piece over the border: cut there, both parts stay */
        struct sfs_extent right = n->e;
        right.skip += (uint32_t)(off - n->e.off);
        right.len -= (uint32_t)(off - n->e.off);
        right.off = off;
        sfs_stored_ref(right.stored);
        sfs_map_punch(&i->map, off, off + right.len);
        (void)sfs_extent_trim(i->vfs->data, &right);
        sfs_map_insert(&i->map, &right, false);
        rc = sfs_map_prepare(&i->map, 1);
        if (rc)
            return rc;
    }
    sfs_map_shift(&i->map, off, (int64_t)len);
    i->row.size += len;
    sfs_inode_touch(i, true);
    return 0;
}

static int allocate(struct sfs_inode *i, int mode, uint64_t off, uint64_t len)
{
    uint64_t end = off + len, size = i->row.size;
    int rc = 0;

    switch (mode & ~FALLOC_FL_KEEP_SIZE) {
    case 0:
        rc = room_for_holes(i, off, end);
        break;
    case FALLOC_FL_PUNCH_HOLE:
        if (!(mode & FALLOC_FL_KEEP_SIZE))
            return -EOPNOTSUPP;
        return off < size ? sfs_inode_punch(i, off, end < size ? end : size) : 0;
    case FALLOC_FL_ZERO_RANGE:
        if (off < size)
            rc = sfs_inode_punch(i, off, end < size ? end : size);
        break;
    case FALLOC_FL_COLLAPSE_RANGE:
        return mode & FALLOC_FL_KEEP_SIZE ? -EINVAL : collapse(i, off, len);
    case FALLOC_FL_INSERT_RANGE:
        return mode & FALLOC_FL_KEEP_SIZE ? -EINVAL : insert(i, off, len);
    default:
        return -EOPNOTSUPP;
    }
    if (!rc && !(mode & FALLOC_FL_KEEP_SIZE) && end > size)
        rc = sfs_inode_truncate(i, end);
    return rc;
}

int sfs_vfs_fallocate(struct sfs_file *f, int mode, uint64_t off, uint64_t len)
{
    struct sfs_inode *i = f->inode;
    int rc = sfs_vfs_writable(f->vfs);

    if (rc)
        return rc;
    if (len == 0)
        return -EINVAL;
    if (off >= SFS_OFFSET_MAX || len > SFS_OFFSET_MAX - off)
        return -EFBIG;
    sfs_inode_modify_begin(i);
    rc = sfs_inode_load_data(i);
    if (!rc)
        rc = allocate(i, mode, off, len);
    sfs_inode_modify_end(i);
    return rc;
}

int sfs_vfs_lseek(struct sfs_file *f, uint64_t off, int whence, uint64_t *out)
{
    struct sfs_inode *i = f->inode;
    int rc;

    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    sfs_mutex_lock(&i->lock);
    rc = sfs_inode_load_data(i);
    if (!rc && off >= i->row.size)
        rc = -ENXIO;
    if (!rc) {
        *out = whence == SEEK_DATA ? sfs_inode_next_data(i, off) : sfs_inode_next_hole(i, off);
        if (whence == SEEK_DATA && *out >= i->row.size)
            rc = -ENXIO;
    }
    sfs_mutex_unlock(&i->lock);
    return rc;
}

/* --- where a file lies ---------------------------------------------------------------------------------- */

struct place {
    uint64_t off, len, group, goff;
    uint32_t slen;
};

/* The pieces of a file as an array. */
static int list_places(struct sfs_inode *i, struct place **out, unsigned *n)
{
    struct place *v;
    unsigned k = 0;

    *out = NULL;
    *n = 0;
    v = calloc(i->map.npieces + 1, sizeof(*v));
    if (!v)
        return -ENOMEM;
    if (i->inline_len)
        v[k++] = (struct place){.len = i->inline_len, .slen = i->inline_len};
    for (struct sfs_map_node *p = sfs_map_find(&i->map, 0); p; p = sfs_map_next(p)) {
        struct sfs_extent_row row;
        sfs_extent_to_row(i->vfs->data, &p->e, &row);
        v[k++] = (struct place){row.off, row.len, row.group, row.goff, row.slen};
    }
    *out = v;
    *n = k;
    return 0;
}

int sfs_vfs_map(struct sfs_vfs *vfs, uint64_t ino,
                int (*fn)(void *ctx, uint64_t off, uint64_t len, uint64_t group, uint64_t goff,
                          uint32_t slen),
                void *ctx)
{
    struct sfs_inode *i;
    struct place *v = NULL;
    unsigned n = 0;
    int rc = sfs_inode_get(vfs, ino, &i);

    if (rc)
        return rc;
    rc = sfs_flush_inode(i);
    if (!rc) {
        sfs_mutex_lock(&i->lock);
        rc = sfs_inode_load_data(i);
        if (!rc && S_ISREG(i->row.mode))
            rc = list_places(i, &v, &n);
        sfs_mutex_unlock(&i->lock);
    }
    sfs_inode_put(i);
    for (unsigned k = 0; k < n && !rc; k++)
        rc = fn(ctx, v[k].off, v[k].len, v[k].group, v[k].goff, v[k].slen);
    free(v);
    return rc;
}
