/* More slabs on a disk in use. The backend checks that there is room and makes its tables larger; then the label says
 * so, durably; then calls may name the new slots. */
#include <stdlib.h>
#include <string.h>
#include "fs/base/buf.h"
#include "fs/disk/queue.h"

/* The label as it will be. The generation is counted here, like every writing of it. */
static struct sfs_label *grown_label(struct sfs_disk *d, uint64_t slabs, struct sfs_error *err, int *rc)
{
    struct sfs_label *l = malloc(sizeof *l);
    if (!l) {
        *rc = sfs_error_set(err, -ENOMEM, "Out of memory.");
        return NULL;
    }
    sfs_disk_label(d, l);
    *rc = d->backend->ops->grow(d->backend, slabs, l, err);
    if (*rc != 0) {
        free(l);
        return NULL;
    }
    sfs_mutex_lock(&d->m);
    l->generation = ++d->label->generation;
    sfs_mutex_unlock(&d->m);
    return l;
}

int sfs_disk_grow(struct sfs_disk *d, uint64_t slabs, struct sfs_error *err)
{
    struct sfs_requests *b = NULL;
    struct sfs_label *l;
    int rc = 0;
    if (d->backend->readonly)
        return sfs_error_set(err, -EROFS, "%s is open read-only.", d->backend->path);
    if (slabs <= sfs_backend_slots(d->backend))
        return 0;
    if (slabs > SFS_SLOTS_MAX)
        return sfs_error_set(err, -EINVAL, "%s: %llu slabs are too many.", d->backend->path,
                             (unsigned long long)slabs);
    l = grown_label(d, slabs, err, &rc);
    if (!l)
        return rc;
    struct sfs_buf *buf = sfs_buf_new(SFS_LABEL_BYTES);
    b = sfs_request_new(d, SFS_RQ_LABEL);
    if (!b || !buf) {
        rc = -ENOMEM;
        goto out;
    }
    sfs_label_encode(l, buf->data);
    b->rq[0].buf = buf;
    b->rq[0].len = SFS_LABEL_BYTES;
    buf = NULL;
    rc = (int)sfs_request_run(b);
    if (rc == 0) {
        sfs_mutex_lock(&d->m);
        d->label->capacity_slabs = l->capacity_slabs;
        d->label->layout = l->layout;
        sfs_mutex_unlock(&d->m);
        __atomic_store_n(&d->backend->capacity_slabs, (uint32_t)slabs, __ATOMIC_RELEASE);
    }
out:
    if (rc != 0)
        sfs_error_set(err, rc, "the label of %s could not be written: %s.", d->backend->path, strerror(-rc));
    sfs_buf_unref(buf);
    sfs_requests_put(b);
    free(l);
    return rc;
}
