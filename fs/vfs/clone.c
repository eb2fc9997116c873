/* copy_file_range(2): by reference where the offsets allow it, else by bytes. */
#include "fs/vfs/vfs_impl.h"

#include <fcntl.h>
#include <stdlib.h>

#define COPY_BYTES (1u << 20)
#define COPY_MAX_BYTES (64u << 20) /* by bytes, in one call: the caller asks again for more */

/* The pieces of [from, to) of i, moved by delta, with references of their own. Lock held. */
static int take_pieces(struct sfs_inode *i, uint64_t from, uint64_t to, int64_t delta,
                       struct sfs_extent **out, unsigned *n)
{
    struct sfs_map_node *p;
    struct sfs_extent *v;
    unsigned k = 0;

    for (p = sfs_map_find(&i->map, from); p && p->e.off < to; p = sfs_map_next(p))
        k++;
    v = malloc((k + 1) * sizeof(*v));
    if (!v)
        return -ENOMEM;
    k = 0;
    for (p = sfs_map_find(&i->map, from); p && p->e.off < to; p = sfs_map_next(p)) {
        struct sfs_extent e = p->e;
        uint64_t end = sfs_map_end(p) < to ? sfs_map_end(p) : to;
        if (e.off < from) {
            e.skip += (uint32_t)(from - e.off);
            e.off = from;
        }
        e.len = (uint32_t)(end - e.off);
        e.off += (uint64_t)delta;
        sfs_stored_ref(e.stored);
        if (e.len != p->e.len)
            /* without memory for it, the piece is only less frugal */
            (void)sfs_extent_trim(i->vfs->data, &e);
        v[k++] = e;
    }
    *out = v;
    *n = k;
    return 0;
}

static bool is_settled(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    uint64_t off;
    uint8_t *data;

    return (i->inline_len == 0 || from >= SFS_BLOCK) && !sfs_inode_run_overlaps(i, from, to) &&
           !sfs_dirty_next(&i->dirty, from, to, &off, &data);
}

/* Both locked, both `modifying`, in the gate. 1: done; 0: it must go by bytes. */
static int share(struct sfs_inode *in, uint64_t off_in, struct sfs_inode *out, uint64_t off_out, uint64_t len)
{
    struct sfs_extent *v;
    unsigned n;
    int rc;

    if (!is_settled(in, off_in, off_in + len) || !is_settled(out, off_out, off_out + len))
        return 0;
    rc = take_pieces(in, off_in, off_in + len, (int64_t)(off_out - off_in), &v, &n);
    if (rc)
        return rc;
    rc = sfs_map_prepare(&out->map, n);
    if (rc) {
        for (unsigned k = 0; k < n; k++)
            sfs_stored_unref(in->vfs->data, v[k].stored);
        free(v);
        return rc;
    }
    sfs_map_punch(&out->map, off_out, off_out + len);
    for (unsigned k = 0; k < n; k++)
        sfs_map_insert(&out->map, &v[k], false);
    free(v);
    if (off_out + len > out->row.size)
        out->row.size = off_out + len;
    sfs_inode_touch(out, true);
    sfs_inode_accessed(in);
    return 1;
}

/* Becomes the one who changes both, in order of number; no lock is held after. */
static void begin_both(struct sfs_inode *a, struct sfs_inode *b)
{
    struct sfs_inode *first = a->ino <= b->ino ? a : b, *second = first == a ? b : a;

    sfs_inode_modify_begin(first);
    sfs_mutex_unlock(&first->lock);
    if (first == second)
        return;
    sfs_inode_modify_begin(second);
    sfs_mutex_unlock(&second->lock);
}

static void end_both(struct sfs_inode *a, struct sfs_inode *b)
{
    sfs_mutex_lock(&a->lock);
    sfs_inode_modify_end(a);
    if (a == b)
        return;
    sfs_mutex_lock(&b->lock);
    sfs_inode_modify_end(b);
}

/* Cuts *len to what is there; loads both. `modifying` both. */
static int look(struct sfs_inode *in, uint64_t off_in, struct sfs_inode *out, uint64_t *len, uint64_t *size)
{
    int rc;

    sfs_mutex_lock(&in->lock);
    rc = sfs_inode_load_data(in);
    *size = in->row.size;
    sfs_mutex_unlock(&in->lock);
    if (!rc && in != out) {
        sfs_mutex_lock(&out->lock);
        rc = sfs_inode_load_data(out);
        sfs_mutex_unlock(&out->lock);
    }
    if (off_in >= *size)
        *len = 0;
    else if (*len > *size - off_in)
        *len = *size - off_in;
    return rc;
}

static int clone_range(struct sfs_inode *in, uint64_t off_in, struct sfs_inode *out, uint64_t off_out,
                       uint64_t len)
{
    struct sfs_lockset set = {.vfs = in->vfs, .v = {in, out}, .n = 2};
    int rc;

    if (sfs_flush_inode(in) || (in != out && sfs_flush_inode(out)))
        return 0; /* what cannot be stored now stays dirty: bytes go from memory to memory */
    sfs_lockset_lock(&set, 0, true);
    rc = share(in, off_in, out, off_out, len);
    sfs_lockset_unlock(&set);
    return rc;
}

/* `modifying` both. */
static int copy_bytes(struct sfs_inode *in, uint64_t off_in, struct sfs_inode *out, uint64_t off_out,
                      uint64_t len, size_t *n)
{
    uint8_t *buf = malloc(COPY_BYTES);
    int rc = 0;

    if (!buf)
        return -ENOMEM;
    while (*n < len && !rc) {
        /* Parts end where a block of the target does: a commit between two of them has no block half old, half new. */
        uint64_t most = COPY_BYTES - (off_out + *n) % SFS_BLOCK;
        size_t part = (size_t)(len - *n < most ? len - *n : most), done = 0;
        rc = sfs_inode_read(in, off_in + *n, part, buf);
        if (!rc)
            rc = sfs_writeback_throttle(in->vfs, part);
        if (rc)
            break;
        sfs_mutex_lock(&out->lock);
        rc = sfs_inode_write(out, buf, part, off_out + *n, &done);
        sfs_mutex_unlock(&out->lock);
        *n += done;
        if (done < part)
            break;
    }
    free(buf);
    return *n ? 0 : rc;
}

static int copy_modifying(struct sfs_inode *in, uint64_t off_in, struct sfs_inode *out, uint64_t off_out,
                          uint64_t len, size_t *n)
{
    uint64_t size;
    int rc = look(in, off_in, out, &len, &size);

    if (rc || len == 0)
        return rc;
    if (off_out >= SFS_OFFSET_MAX || len > SFS_OFFSET_MAX - off_out)
        return -EFBIG;
    if (in == out && off_in < off_out + len && off_out < off_in + len)
        return -EINVAL;
    if (off_in % SFS_BLOCK == 0 && off_out % SFS_BLOCK == 0 &&
        (len % SFS_BLOCK == 0 || off_in + len == size)) {
        rc = clone_range(in, off_in, out, off_out, len);
        if (rc == 1)
            *n = (size_t)len;
        if (rc)
            return rc < 0 ? rc : 0;
    }
    return copy_bytes(in, off_in, out, off_out, len < COPY_MAX_BYTES ? len : COPY_MAX_BYTES, n);
}

int sfs_vfs_copy_range(struct sfs_file *in, uint64_t off_in, struct sfs_file *out, uint64_t off_out,
                       uint64_t len, size_t *n)
{
    int rc = sfs_vfs_writable(out->vfs);

    *n = 0;
    if (rc)
        return rc;
    if (in->vfs != out->vfs)
        return -EXDEV;
    if (len == 0 || off_in >= SFS_OFFSET_MAX)
        return 0;
    if (len > SFS_OFFSET_MAX - off_in)
        len = SFS_OFFSET_MAX - off_in;
    begin_both(in->inode, out->inode);
    rc = copy_modifying(in->inode, off_in, out->inode, off_out, len, n);
    end_both(in->inode, out->inode);
    if (!rc && (out->flags & (O_SYNC | O_DSYNC)))
        rc = sfs_vfs_fsync(out, false);
    return rc;
}
