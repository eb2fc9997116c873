/* The map of an image's metadata area: which chunks make up which file, and which slots were claimed.
 *
 * Two copies; the valid one with the higher sequence counts, and only the other is ever written to. A chunk
 * that a file has given up stays out of use (SFS_CHUNK_FREED) until a map without it is on disk: after a
 * crash the old map finds the old bytes. When neither copy is valid the area counts as empty: its files are
 * lost with their map, and are made anew from other disks. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/disk/image.h"

/* --- files, chunks, claims in memory ---------------------------------------------------------- */

struct sfs_image_file *sfs_image_file_find(struct sfs_image *im, const char *name)
{
    struct sfs_image_file *f;
    LIST_FOREACH(f, &im->files, link)
    {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

void sfs_image_file_free(struct sfs_image_file *f)
{
    free(f->chunks);
    free(f);
}

int sfs_image_file_new(struct sfs_image *im, const char *name, struct sfs_image_file **out)
{
    if (im->nfiles == SFS_MAP_FILES)
        return -ENOSPC;
    struct sfs_image_file *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    snprintf(f->name, sizeof f->name, "%s", name);
    sfs_mutex_lock(&im->map_m);
    LIST_INSERT_HEAD(&im->files, f, link);
    im->nfiles++;
    sfs_mutex_unlock(&im->map_m);
    *out = f;
    return 0;
}

uint64_t sfs_image_file_rounded(const struct sfs_image *im, const struct sfs_image_file *f)
{
    uint64_t chunk = im->layout.chunk_bytes;
    return (f->size + chunk - 1) / chunk * chunk;
}

static uint32_t chunks_per_slab(const struct sfs_image *im)
{
    return (uint32_t)(im->b.slab_bytes / im->layout.chunk_bytes);
}

uint32_t sfs_image_total_chunks(const struct sfs_image *im)
{
    return im->layout.base_chunks + im->nclaims * chunks_per_slab(im);
}

uint64_t sfs_image_chunk_off(const struct sfs_image *im, uint32_t chunk)
{
    const struct sfs_image_layout *y = &im->layout;
    if (chunk < y->base_chunks)
        return y->meta_off + (uint64_t)chunk * y->chunk_bytes;
    uint32_t n = chunk - y->base_chunks, per_slab = chunks_per_slab(im);
    return y->slots_off + im->claims[n / per_slab] * im->b.slab_bytes +
           (uint64_t)(n % per_slab) * y->chunk_bytes;
}

/* With map_m held. */
static bool claimed_locked(const struct sfs_image *im, uint32_t slot)
{
    for (uint32_t i = 0; i < im->nclaims; i++) {
        if (im->claims[i] == slot)
            return true;
    }
    return false;
}

bool sfs_image_slot_claimed(struct sfs_backend *b, uint32_t slot)
{
    struct sfs_image *im = (struct sfs_image *)b;
    sfs_mutex_lock(&im->map_m);
    bool claimed = claimed_locked(im, slot);
    sfs_mutex_unlock(&im->map_m);
    return claimed;
}

int sfs_image_claim_add(struct sfs_image *im, uint32_t slot)
{
    int rc = 0;
    sfs_mutex_lock(&im->map_m);
    if (slot >= sfs_backend_slots(&im->b) || claimed_locked(im, slot) || im->nclaims >= im->max_claims) {
        rc = -EINVAL;
    } else {
        im->claims[im->nclaims++] = slot;
        im->nfree += chunks_per_slab(im);
        im->map_dirty = true;
    }
    sfs_mutex_unlock(&im->map_m);
    return rc;
}

/* --- to disk ---------------------------------------------------------------------------------- */

void sfs_image_map_blank(const struct sfs_uuid *disk, uint64_t sequence, uint8_t *out, size_t out_bytes)
{
    struct sfs_map_disk *h = (struct sfs_map_disk *)out;
    memset(out, 0, out_bytes);
    memcpy(h->magic, SFS_MAP_MAGIC, sizeof h->magic);
    h->format = htole32(SFS_FORMAT_VERSION);
    h->bytes = htole32((uint32_t)sizeof *h);
    h->sequence = htole64(sequence);
    memcpy(h->disk_uuid, disk->b, 16);
    h->checksum = htole64(sfs_format_checksum(out, sizeof *h));
}

static uint64_t file_disk_size(const struct sfs_image *im, const struct sfs_image_file *f)
{
    return f->grown ? sfs_image_file_rounded(im, f) : f->size;
}

/* Into map_buf. Returns the bytes used. */
static uint32_t map_encode(struct sfs_image *im)
{
    struct sfs_map_disk *h = (struct sfs_map_disk *)im->map_buf;
    struct sfs_map_file_disk *e = (struct sfs_map_file_disk *)(h + 1);
    uint32_t *word = (uint32_t *)(e + im->nfiles), nchunks = 0;
    const struct sfs_image_file *f;
    sfs_image_map_blank(&im->disk_uuid, im->map_sequence + 1, im->map_buf, sizeof *h);
    h->nfiles = htole32(im->nfiles);
    h->nclaims = htole32(im->nclaims);
    for (uint32_t i = 0; i < im->nclaims; i++)
        *word++ = htole32(im->claims[i]);
    LIST_FOREACH(f, &im->files, link)
    {
        memset(e, 0, sizeof *e);
        snprintf(e->name, sizeof e->name, "%s", f->name);
        e->size_bytes = htole64(file_disk_size(im, f));
        e->nchunks = htole32(f->nchunks);
        e++;
        for (uint32_t i = 0; i < f->nchunks; i++)
            *word++ = htole32(f->chunks[i]);
        nchunks += f->nchunks;
    }
    uint32_t bytes = (uint32_t)((uint8_t *)word - im->map_buf);
    h->nchunks = htole32(nchunks);
    h->bytes = htole32(bytes);
    h->checksum = htole64(sfs_format_checksum(im->map_buf, bytes));
    return bytes;
}

static void chunks_release_freed(struct sfs_image *im)
{
    for (uint32_t i = 0; im->nfreed > 0 && i < im->layout.max_chunks; i++) {
        if (im->chunks[i] == SFS_CHUNK_FREED) {
            im->chunks[i] = SFS_CHUNK_FREE;
            im->nfreed--;
            im->nfree++;
        }
    }
}

int sfs_image_map_write(struct sfs_image *im)
{
    struct sfs_image_file *f;
    uint32_t bytes = map_encode(im);
    unsigned copy = !im->map_copy;
    int rc = sfs_pwrite_full(im->fd, im->map_buf, bytes,
                             im->layout.map_off + (uint64_t)copy * im->layout.map_bytes);
    sfs_image_wrote(im);
    if (rc == 0)
        rc = sfs_image_flush(im, NULL);
    if (rc != 0)
        return rc;
    sfs_mutex_lock(&im->map_m);
    im->map_sequence++;
    im->map_copy = copy;
    im->map_dirty = false;
    LIST_FOREACH(f, &im->files, link)
    f->disk_size = file_disk_size(im, f);
    chunks_release_freed(im);
    sfs_mutex_unlock(&im->map_m);
    return 0;
}

/* --- from disk, trusting nothing -------------------------------------------------------------- */

/* Reads a copy into map_buf. Its sequence, 0 when it isn't valid. -errno: the disk can't be read at all. */
static int copy_read(struct sfs_image *im, unsigned copy, uint64_t *sequence)
{
    struct sfs_map_disk *h = (struct sfs_map_disk *)im->map_buf;
    uint64_t off = im->layout.map_off + (uint64_t)copy * im->layout.map_bytes;
    *sequence = 0;
    int rc = sfs_pread_full(im->fd, h, sizeof *h, off);
    if (rc == -EIO) /* a bad sector in one copy is what there are two for */
        return 0;
    if (rc != 0)
        return rc;
    uint32_t bytes = le32toh(h->bytes);
    if (memcmp(h->magic, SFS_MAP_MAGIC, sizeof h->magic) != 0 || bytes < sizeof *h ||
        bytes > im->layout.map_bytes)
        return 0;
    rc = sfs_pread_full(im->fd, h, bytes, off);
    if (rc == -EIO)
        return 0;
    if (rc != 0)
        return rc;
    if (le32toh(h->bytes) != bytes || le64toh(h->checksum) != sfs_format_checksum(im->map_buf, bytes) ||
        le32toh(h->format) != SFS_FORMAT_VERSION || memcmp(h->disk_uuid, im->disk_uuid.b, 16) != 0)
        return 0;
    *sequence = le64toh(h->sequence);
    return 0;
}

static bool file_take_chunks(struct sfs_image *im, struct sfs_image_file *f, const uint32_t *words,
                             uint32_t n)
{
    f->chunks = calloc(n + 1u, sizeof *f->chunks);
    if (!f->chunks)
        return false;
    f->cap = n + 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t chunk = le32toh(words[i]);
        if (chunk >= sfs_image_total_chunks(im) || im->chunks[chunk] != SFS_CHUNK_FREE)
            return false;
        im->chunks[chunk] = SFS_CHUNK_USED;
        im->nfree--;
        f->chunks[f->nchunks++] = chunk;
    }
    return true;
}

static bool file_decode(struct sfs_image *im, const struct sfs_map_file_disk *e, const uint32_t *words)
{
    struct sfs_image_file *f;
    uint32_t n = le32toh(e->nchunks);
    uint64_t size = le64toh(e->size_bytes);
    if (memchr(e->name, 0, sizeof e->name) == NULL || !sfs_meta_name_ok(e->name) ||
        sfs_image_file_find(im, e->name))
        return false;
    if (size > (uint64_t)n * im->layout.chunk_bytes || sfs_image_file_new(im, e->name, &f) != 0)
        return false;
    f->size = f->disk_size = size;
    f->tail_dirty = true; /* not known to be zeros */
    return file_take_chunks(im, f, words, n);
}

/* What map_buf holds. False: it makes no sense (or there is no memory); what was taken from it is to be
 * forgotten. */
static bool map_decode(struct sfs_image *im)
{
    const struct sfs_map_disk *h = (const struct sfs_map_disk *)im->map_buf;
    const struct sfs_map_file_disk *e = (const struct sfs_map_file_disk *)(h + 1);
    uint32_t nfiles = le32toh(h->nfiles), nclaims = le32toh(h->nclaims), nchunks = le32toh(h->nchunks);
    if (nfiles > SFS_MAP_FILES || nclaims > im->max_claims || nchunks > im->layout.max_chunks)
        return false;
    if (le32toh(h->bytes) != sizeof *h + nfiles * sizeof *e + 4ull * nclaims + 4ull * nchunks)
        return false;
    const uint32_t *word = (const uint32_t *)(e + nfiles);
    for (uint32_t i = 0; i < nclaims; i++) {
        if (sfs_image_claim_add(im, le32toh(*word++)) != 0)
            return false;
    }
    for (uint32_t i = 0; i < nfiles; i++) {
        uint32_t n = le32toh(e[i].nchunks);
        if (n > nchunks || !file_decode(im, &e[i], word))
            return false;
        nchunks -= n;
        word += n;
    }
    return nchunks == 0;
}

static void map_forget(struct sfs_image *im)
{
    struct sfs_image_file *f;
    while ((f = LIST_FIRST(&im->files)) != NULL) {
        LIST_REMOVE(f, link);
        sfs_image_file_free(f);
    }
    memset(im->chunks, SFS_CHUNK_FREE, im->layout.max_chunks);
    im->nfiles = 0;
    im->nclaims = 0;
    im->nfree = im->layout.base_chunks;
    im->nfreed = 0;
}

int sfs_image_map_read(struct sfs_image *im)
{
    uint64_t sequences[2];
    for (unsigned i = 0; i < 2; i++) {
        int rc = copy_read(im, i, &sequences[i]);
        if (rc != 0)
            return rc;
    }
    unsigned best = sequences[1] > sequences[0];
    map_forget(im);
    for (unsigned try = 0; try < 2; try++, best = !best) {
        uint64_t again;
        if (sequences[best] == 0)
            continue;
        int rc = copy_read(im, best, &again);
        if (rc != 0)
            return rc;
        if (again == sequences[best] && map_decode(im)) {
            im->map_copy = best;
            im->map_sequence = again;
            im->map_dirty = false;
            return 0;
        }
        map_forget(im);
    }
    im->map_copy = 1;
    im->map_sequence = sequences[0] > sequences[1] ? sequences[0] : sequences[1];
    im->map_dirty = true;
    return 0;
}
