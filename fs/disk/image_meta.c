/* Files in an image's metadata area, made of chunks. The map that holds them together is in image_map.c.
 *
 * Writes inside a file's size touch no structure and need map_m only, for looking up. All that changes
 * structure (growing, truncating, deleting, writing the map) is done one at a time under grow_m. Growing
 * takes free chunks, then those a new map sets free, then asks the pool for a slot, with no lock held. A
 * chunk is filled with zeros when a file gets it.
 *
 * Slots are claimed ahead of need, so that some chunks are free when data has taken all slots: a catalog that
 * cannot grow then could not even record that something was deleted, nor be recovered after a crash, when it
 * isn't known yet which slots are free. */
#include <stdlib.h>
#include <string.h>
#include "fs/disk/image.h"

#define KEEP_MAX_BYTES (16ull << 20)

static struct sfs_image *image_of(struct sfs_backend *b)
{
    return (struct sfs_image *)b;
}

int sfs_image_meta_init(struct sfs_image *im)
{
    im->max_claims = sfs_image_max_claims(&im->layout, im->b.slab_bytes);
    im->claims = calloc(im->max_claims + 1u, sizeof *im->claims);
    im->chunks = calloc(im->layout.max_chunks + 1u, 1);
    im->map_buf = aligned_alloc(4096, im->layout.map_bytes);
    if (!im->claims || !im->chunks || !im->map_buf)
        return -ENOMEM;
    return sfs_image_map_read(im);
}

void sfs_image_meta_fini(struct sfs_image *im)
{
    struct sfs_image_file *f;
    while ((f = LIST_FIRST(&im->files)) != NULL) {
        LIST_REMOVE(f, link);
        sfs_image_file_free(f);
    }
    free(im->claims);
    free(im->chunks);
    free(im->map_buf);
    sfs_mutex_destroy(&im->grow_m);
    sfs_mutex_destroy(&im->map_m);
}

/* --- looking up ------------------------------------------------------------------------------- */

/* Where the byte at off lies, and how many follow it there; at most len and the file's size. 0: beyond the
 * end. -ENOENT. */
static int64_t locate(struct sfs_image *im, const char *name, uint64_t off, size_t len, uint64_t *disk_off)
{
    int64_t rc = -ENOENT;
    sfs_mutex_lock(&im->map_m);
    struct sfs_image_file *f = sfs_image_file_find(im, name);
    if (f) {
        uint64_t in_chunk = off % im->layout.chunk_bytes;
        uint64_t rest = im->layout.chunk_bytes - in_chunk;
        uint64_t left = off < f->size ? f->size - off : 0;
        if (rest > left)
            rest = left;
        rc = (int64_t)(rest < len ? rest : len);
        if (rc > 0)
            *disk_off = sfs_image_chunk_off(im, f->chunks[off / im->layout.chunk_bytes]) + in_chunk;
    }
    sfs_mutex_unlock(&im->map_m);
    return rc;
}

int64_t sfs_image_meta_size(struct sfs_backend *b, const char *name)
{
    struct sfs_image *im = image_of(b);
    sfs_mutex_lock(&im->map_m);
    struct sfs_image_file *f = sfs_image_file_find(im, name);
    int64_t size = f ? (int64_t)f->size : -ENOENT;
    sfs_mutex_unlock(&im->map_m);
    return size;
}

int sfs_image_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n)
{
    struct sfs_image *im = image_of(b);
    struct sfs_image_file *f;
    *n = 0;
    *out = calloc(SFS_MAP_FILES, sizeof **out);
    if (!*out)
        return -ENOMEM;
    sfs_mutex_lock(&im->map_m);
    LIST_FOREACH(f, &im->files, link)
    {
        memcpy((*out)[*n].name, f->name, sizeof f->name);
        (*out)[(*n)++].size = f->size;
    }
    sfs_mutex_unlock(&im->map_m);
    return 0;
}

int64_t sfs_image_meta_free_bytes(struct sfs_backend *b, uint32_t slots)
{
    struct sfs_image *im = image_of(b);
    sfs_mutex_lock(&im->map_m);
    uint64_t room = (uint64_t)(im->nfree + im->nfreed) * im->layout.chunk_bytes;
    uint32_t claims = im->max_claims < sfs_backend_slots(b) ? im->max_claims : sfs_backend_slots(b);
    claims = claims > im->nclaims ? claims - im->nclaims : 0;
    room += (claims < slots ? claims : slots) * b->slab_bytes;
    sfs_mutex_unlock(&im->map_m);
    return (int64_t)room;
}

size_t sfs_image_meta_read_nowait(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf,
                                  size_t len)
{
    struct sfs_image *im = image_of(b);
    size_t done = 0;
    while (done < len) {
        uint64_t disk_off;
        int64_t n = locate(im, name, off + done, len - done, &disk_off);
        if (n <= 0)
            break;
        size_t had = sfs_pread_nowait(im->fd, buf + done, (size_t)n, disk_off);
        done += had;
        if (had < (size_t)n)
            break;
    }
    return done;
}

int64_t sfs_image_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len)
{
    struct sfs_image *im = image_of(b);
    size_t done = 0;
    do {
        uint64_t disk_off;
        int64_t n = locate(im, name, off + done, len - done, &disk_off);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        int rc = sfs_pread_full(im->fd, buf + done, (size_t)n, disk_off);
        if (rc != 0)
            return rc;
        done += (size_t)n;
    } while (done < len);
    return (int64_t)done;
}

/* --- chunks ----------------------------------------------------------------------------------- */

static int zero_disk(struct sfs_image *im, uint64_t disk_off, uint64_t len)
{
    static const uint8_t zeros[64 << 10];
    int rc = 0;
    while (len > 0 && rc == 0) {
        size_t n = len < sizeof zeros ? (size_t)len : sizeof zeros;
        rc = sfs_pwrite_full(im->fd, zeros, n, disk_off);
        disk_off += n;
        len -= n;
    }
    sfs_image_wrote(im);
    return rc;
}

/* A free chunk, next after the last one given out. There is one. */
static uint32_t chunk_take(struct sfs_image *im)
{
    uint32_t total = sfs_image_total_chunks(im);
    SFS_ASSERT(im->nfree > 0);
    for (uint32_t i = 0; i < total; i++) {
        uint32_t chunk = (im->next_chunk + i) % total;
        if (im->chunks[chunk] == SFS_CHUNK_FREE) {
            im->next_chunk = chunk + 1;
            return chunk;
        }
    }
    SFS_ASSERT(!"nfree is right");
    return 0;
}

static int file_add_chunk(struct sfs_image *im, struct sfs_image_file *f)
{
    if (f->nchunks == f->cap) {
        uint32_t cap = f->cap ? f->cap * 2 : 16;
        uint32_t *chunks = malloc(cap * sizeof *chunks), *old = f->chunks;
        if (!chunks)
            return -ENOMEM;
        if (old)
            memcpy(chunks, old, f->nchunks * sizeof *chunks);
        sfs_mutex_lock(&im->map_m);
        f->chunks = chunks;
        f->cap = cap;
        sfs_mutex_unlock(&im->map_m);
        free(old);
    }
    uint32_t chunk = chunk_take(im);
    int rc = zero_disk(im, sfs_image_chunk_off(im, chunk), im->layout.chunk_bytes);
    if (rc != 0)
        return rc;
    sfs_mutex_lock(&im->map_m);
    im->chunks[chunk] = SFS_CHUNK_USED;
    im->nfree--;
    f->chunks[f->nchunks++] = chunk;
    im->map_dirty = true;
    sfs_mutex_unlock(&im->map_m);
    return 0;
}

/* With grow_m held, which it lets go of while it asks the pool. */
static int claim_slot(struct sfs_image *im)
{
    if (im->nclaims >= im->max_claims)
        return -ENOSPC;
    sfs_mutex_unlock(&im->grow_m);
    int64_t slot = im->b.claim(im->b.claim_ctx);
    sfs_mutex_lock(&im->grow_m);
    if (slot < 0)
        return -ENOSPC;
    /* A slot that can't be one is none. */
    return slot < sfs_backend_slots(&im->b) && sfs_image_claim_add(im, (uint32_t)slot) == 0 ? 0 : -ENOSPC;
}

/* Chunks that stay free as long as there are slots to claim. */
static uint64_t chunks_kept(const struct sfs_image *im)
{
    uint64_t bytes = im->layout.image_bytes / 16;
    return (bytes < KEEP_MAX_BYTES ? bytes : KEEP_MAX_BYTES) / im->layout.chunk_bytes;
}

/* With grow_m held: sees to it that so many chunks are free, and those that are kept, unless a claim for them
 * was *refused. *slept: grow_m was let go of meanwhile. */
static int chunks_reserve(struct sfs_image *im, uint64_t need, bool *refused, bool *slept)
{
    *slept = false;
    if (im->nfree < need && im->nfreed > 0) {
        int rc = sfs_image_map_write(im);
        if (rc != 0)
            return rc;
    }
    bool enough = im->nfree >= need;
    if (enough && (*refused || im->nfree + im->nfreed >= need + chunks_kept(im)))
        return 0;
    *slept = true;
    int rc = claim_slot(im);
    *refused = rc != 0;
    return enough ? 0 : rc;
}

static uint64_t chunks_for(const struct sfs_image *im, uint64_t size)
{
    return (size + im->layout.chunk_bytes - 1) / im->layout.chunk_bytes;
}

/* With grow_m held: makes what the file's chunks hold beyond its size zeros. */
static int file_zero_tail(struct sfs_image *im, struct sfs_image_file *f)
{
    uint64_t in_chunk = f->size % im->layout.chunk_bytes;
    int rc = 0;
    for (uint64_t i = f->size / im->layout.chunk_bytes; i < f->nchunks && rc == 0; i++) {
        rc = zero_disk(im, sfs_image_chunk_off(im, f->chunks[i]) + in_chunk,
                       im->layout.chunk_bytes - in_chunk);
        in_chunk = 0;
    }
    f->tail_dirty = rc != 0;
    return rc;
}

/* With grow_m held: gives the file (made if need be, when make) chunks for `size` bytes, and zeros from its
 * end to the end of its last chunk. */
static int file_reach(struct sfs_image *im, const char *name, bool make, uint64_t size,
                      struct sfs_image_file **out)
{
    struct sfs_image_file *f;
    bool slept, refused = false;
    int rc;
    do {
        f = sfs_image_file_find(im, name);
        if (!f && !make)
            return -ENOENT;
        uint64_t has = f ? f->nchunks : 0, wants = chunks_for(im, size);
        rc = chunks_reserve(im, wants > has ? wants - has : 0, &refused, &slept);
        if (rc != 0)
            return rc;
    } while (slept); /* the file may have changed, and one slot may not be enough */

    if (!f) {
        rc = sfs_image_file_new(im, name, &f);
        im->map_dirty = true;
    }
    if (rc == 0 && f->tail_dirty && size > f->size)
        rc = file_zero_tail(im, f);
    while (rc == 0 && f->nchunks < chunks_for(im, size))
        rc = file_add_chunk(im, f);
    *out = f;
    return rc;
}

/* --- changing --------------------------------------------------------------------------------- */

/* Within the file's size, or the chunks it has been given for more. */
static int write_chunks(struct sfs_image *im, const struct sfs_image_file *f, uint64_t off,
                        const uint8_t *buf, size_t len)
{
    int rc = 0;
    while (len > 0 && rc == 0) {
        uint64_t in_chunk = off % im->layout.chunk_bytes, rest = im->layout.chunk_bytes - in_chunk;
        size_t n = rest < len ? (size_t)rest : len;
        rc = sfs_pwrite_full(im->fd, buf, n,
                             sfs_image_chunk_off(im, f->chunks[off / im->layout.chunk_bytes]) + in_chunk);
        off += n;
        buf += n;
        len -= n;
    }
    sfs_image_wrote(im);
    return rc;
}

static int write_growing(struct sfs_image *im, const char *name, uint64_t off, const uint8_t *buf, size_t len)
{
    struct sfs_image_file *f = NULL;
    sfs_mutex_lock(&im->grow_m);
    int rc = file_reach(im, name, true, len > 0 ? off + len : 0, &f);
    if (rc == 0)
        rc = write_chunks(im, f, off, buf, len);
    if (rc == 0 && len > 0 && off + len > f->size) {
        sfs_mutex_lock(&im->map_m);
        f->size = off + len;
        f->grown = true;
        sfs_mutex_unlock(&im->map_m);
    } else if (rc != 0 && f) {
        f->tail_dirty = true;
    }
    sfs_mutex_unlock(&im->grow_m);
    return rc;
}

int sfs_image_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf,
                         size_t len)
{
    struct sfs_image *im = image_of(b);
    int64_t size = sfs_image_meta_size(b, name);
    if (size < 0 || off + len > (uint64_t)size)
        return write_growing(im, name, off, buf, len);
    int rc = 0;
    while (len > 0 && rc == 0) {
        uint64_t disk_off;
        int64_t n = locate(im, name, off, len, &disk_off);
        if (n <= 0) /* truncated or deleted just now */
            return write_growing(im, name, off, buf, len);
        rc = sfs_pwrite_full(im->fd, buf, (size_t)n, disk_off);
        sfs_image_wrote(im);
        off += (size_t)n;
        buf += n;
        len -= (size_t)n;
    }
    return rc;
}

/* With grow_m and map_m held. */
static void file_give_back(struct sfs_image *im, struct sfs_image_file *f, uint32_t keep)
{
    while (f->nchunks > keep) {
        im->chunks[f->chunks[--f->nchunks]] = SFS_CHUNK_FREED;
        im->nfreed++;
    }
}

int sfs_image_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size)
{
    struct sfs_image *im = image_of(b);
    struct sfs_image_file *f;
    sfs_mutex_lock(&im->grow_m);
    int rc = file_reach(im, name, false, size, &f);
    if (rc == 0) {
        sfs_mutex_lock(&im->map_m);
        if (size < f->size) {
            file_give_back(im, f, (uint32_t)chunks_for(im, size));
            f->tail_dirty = true;
        }
        f->size = size;
        f->grown = false;
        im->map_dirty = true;
        sfs_mutex_unlock(&im->map_m);
    }
    sfs_mutex_unlock(&im->grow_m);
    return rc;
}

int sfs_image_meta_sync(struct sfs_backend *b, const char *name)
{
    struct sfs_image *im = image_of(b);
    sfs_mutex_lock(&im->grow_m);
    struct sfs_image_file *f = sfs_image_file_find(im, name);
    bool map = im->map_dirty || (f && f->grown && f->disk_size != sfs_image_file_rounded(im, f));
    int rc = map ? sfs_image_map_write(im) : 0;
    sfs_mutex_unlock(&im->grow_m);
    return rc != 0 || map ? rc : sfs_image_flush(im, NULL);
}

int sfs_image_meta_delete(struct sfs_backend *b, const char *name)
{
    struct sfs_image *im = image_of(b);
    sfs_mutex_lock(&im->grow_m);
    struct sfs_image_file *f = sfs_image_file_find(im, name);
    if (f) {
        sfs_mutex_lock(&im->map_m);
        file_give_back(im, f, 0);
        LIST_REMOVE(f, link);
        im->nfiles--;
        im->map_dirty = true;
        sfs_mutex_unlock(&im->map_m);
        sfs_image_file_free(f);
    }
    sfs_mutex_unlock(&im->grow_m);
    return 0;
}

/* At a clean close the map gets the sizes as they are. */
int sfs_image_settle(struct sfs_backend *b)
{
    struct sfs_image *im = image_of(b);
    struct sfs_image_file *f;
    sfs_mutex_lock(&im->grow_m);
    bool needed = im->map_dirty;
    LIST_FOREACH(f, &im->files, link)
    {
        f->grown = false;
        needed |= f->disk_size != f->size;
    }
    int rc = needed ? sfs_image_map_write(im) : 0;
    sfs_mutex_unlock(&im->grow_m);
    return rc;
}
