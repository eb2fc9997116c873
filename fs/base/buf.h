/* Reference-counted I/O buffers, 4 KiB aligned, kept in a pool so that their pages stay touched.
 * A disk request holds a reference: a request that is given up (a stalled disk) can still write into its buffer later. Thread-safe. */
#ifndef SFS_BASE_BUF_H
#define SFS_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct sfs_buf {
    uint8_t *data;
    size_t len;      /* bytes asked for; contents undefined when new */
    int refs;        /* atomic */
    size_t cap;      /* bytes allocated */
    struct sfs_buf *next;
};

struct sfs_buf *sfs_buf_new(size_t len); /* NULL when out of memory */
struct sfs_buf *sfs_buf_ref(struct sfs_buf *b);
void sfs_buf_unref(struct sfs_buf *b);   /* NULL is fine */
void sfs_buf_trim_pool(void);            /* frees what the pool keeps; for tests and shutdown */

#endif
