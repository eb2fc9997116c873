/* fsx DIR [--seed N] [--ops N] [--files N] [--size BYTES] [--no-direct] [--no-mmap] [--verbose]
 *
 * Random operations on a few files against a copy in memory: read, write and append by plain calls, O_DIRECT
 * and shared mappings, truncation, punching, zeroing, preallocation, copy_file_range within and between
 * files, fsync, SEEK_DATA and SEEK_HOLE, closing and opening anew, dropping the kernel's cache. Every read is
 * compared; the whole of every file now and then, and at the end. A difference prints the seed and the number
 * of the operation, which replay it, and the last operations on that file.
 *
 * The longest range that may differ is told with its first byte, so that stale, torn and foreign bytes can be
 * told apart: each byte follows from file, write and place. */
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/mount/stream.h"

#define MAX_FILES 8u
#define PAGE 4096u
#define LOG 40u

struct file {
    char name[32];
    int fd, direct; /* direct -1: none */
    uint8_t *model; /* `size` bytes, zeros behind up to the limit */
    uint64_t size;
    char log[LOG][120];
    unsigned nlog;
};

static struct {
    uint64_t seed, ops, limit;
    unsigned nfiles;
    bool direct, mmap, verbose;
} opt = {.seed = 1, .ops = 10000, .nfiles = 3, .limit = 3u << 20, .direct = true, .mmap = true};
static struct file files[MAX_FILES];
static uint64_t op, drawn;
static uint8_t *buf, *scratch; /* page-aligned, `limit` bytes and a page */
static uint64_t counts[32];

static uint64_t draw(uint64_t below)
{
    return below ? stream_word(opt.seed, ++drawn) % below : 0;
}

static void __attribute__((format(printf, 2, 3))) note(struct file *f, const char *fmt, ...)
{
    va_list ap;
    char *line = f->log[f->nlog++ % LOG];
    int n = snprintf(line, sizeof(f->log[0]), "%lu fsx-%u: ", op, (unsigned)(f - files));

    va_start(ap, fmt);
    vsnprintf(line + n, sizeof(f->log[0]) - (size_t)n, fmt, ap);
    va_end(ap);
    if (opt.verbose)
        puts(line);
}

static void __attribute__((noreturn, format(printf, 2, 3))) failed(struct file *f, const char *fmt, ...)
{
    va_list ap;
    int e = errno;

    printf("FAIL seed=%lu op=%lu %s: ", opt.seed, op, f->name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf(" (errno %d, %s)\nthe last operations on it:\n", e, strerror(e));
    for (unsigned k = f->nlog > LOG ? f->nlog - LOG : 0; k < f->nlog; k++)
        printf("  %s\n", f->log[k % LOG]);
    printf("replay: fsx DIR --seed %lu --ops %lu --files %u --size %lu%s%s\n", opt.seed, op, opt.nfiles,
           opt.limit, opt.direct ? "" : " --no-direct", opt.mmap ? "" : " --no-mmap");
    exit(1);
}

static void compare(struct file *f, const uint8_t *got, uint64_t off, uint64_t len, const char *how)
{
    if (memcmp(got, f->model + off, len) == 0)
        return;
    uint64_t first = 0, n = 0;
    while (got[first] == f->model[off + first])
        first++;
    for (uint64_t k = first; k < len; k++)
        n += got[k] != f->model[off + k];
    failed(f, "%s of %lu bytes at %lu (size %lu): %lu bytes differ, the first at %lu: %02x, not %02x", how,
           len, off, f->size, n, off + first, got[first], f->model[off + first]);
}

/* --- ranges
 * ------------------------------------------------------------------------------------------------- */

/* Places cluster at page and megabyte borders and at the end of the file, where things go wrong. */
static uint64_t draw_off(struct file *f, uint64_t below)
{
    uint64_t off = draw(below);

    switch (draw(6)) {
    case 0:
        off = off / PAGE * PAGE;
        break;
    case 1:
        off = off / PAGE * PAGE + PAGE - 1 - draw(3);
        break;
    case 2:
        off = f->size + draw(5) - 2;
        break;
    case 3:
        off = off / (1u << 20) * (1u << 20) + draw(3);
        break;
    default:
        break;
    }
    return off < below ? off : below ? below - 1 : 0;
}

static uint64_t draw_len(uint64_t most)
{
    static const uint64_t scales[] = {16, 3000, PAGE, 20000, 200000, 1500000};
    uint64_t len = 1 + draw(scales[draw(sizeof(scales) / sizeof(scales[0]))]);

    if (draw(3) == 0)
        len = (len + PAGE - 1) / PAGE * PAGE;
    return len < most ? len : most;
}

static bool range_below(struct file *f, uint64_t end, uint64_t *off, uint64_t *len)
{
    if (end == 0)
        return false;
    *off = draw_off(f, end);
    *len = draw_len(end - *off);
    return *len > 0;
}

static void to_pages(uint64_t *off, uint64_t *len)
{
    uint64_t end = *off + *len;

    *off = *off / PAGE * PAGE;
    end = (end + PAGE - 1) / PAGE * PAGE;
    if (end > opt.limit)
        end = opt.limit / PAGE * PAGE;
    *len = end > *off ? end - *off : 0;
}

static void fill_buf(uint64_t len)
{
    stream_fill(opt.seed * 1000003 + op, 0, buf, len);
}

static void grown(struct file *f, uint64_t end)
{
    if (end > f->size)
        f->size = end;
}

/* --- operations
 * --------------------------------------------------------------------------------------------- */

static void do_read(struct file *f)
{
    uint64_t off, len;

    if (!range_below(f, opt.limit, &off, &len))
        return;
    note(f, "read %lu at %lu", len, off);
    ssize_t n = pread(f->fd, buf, len, (off_t)off);
    uint64_t want = off >= f->size ? 0 : off + len > f->size ? f->size - off : len;
    if (n != (ssize_t)want)
        failed(f, "read of %lu at %lu returns %zd, size is %lu", len, off, n, f->size);
    compare(f, buf, off, want, "read");
}

static void do_direct_read(struct file *f)
{
    uint64_t off, len;

    if (f->direct < 0 || !range_below(f, opt.limit, &off, &len))
        return;
    to_pages(&off, &len);
    note(f, "direct read %lu at %lu", len, off);
    ssize_t n = pread(f->direct, buf, len, (off_t)off);
    uint64_t want = off >= f->size ? 0 : off + len > f->size ? f->size - off : len;
    if (n != (ssize_t)want)
        failed(f, "direct read of %lu at %lu returns %zd, size is %lu", len, off, n, f->size);
    compare(f, buf, off, want, "direct read");
}

static void write_by(struct file *f, int fd, uint64_t off, uint64_t len, const char *how)
{
    note(f, "%s %lu at %lu", how, len, off);
    fill_buf(len);
    ssize_t n = pwrite(fd, buf, len, (off_t)off);
    if (n != (ssize_t)len)
        failed(f, "%s of %lu at %lu returns %zd", how, len, off, n);
    memcpy(f->model + off, buf, len);
    grown(f, off + len);
}

static void do_write(struct file *f)
{
    uint64_t off, len;

    if (range_below(f, draw(3) ? f->size + 10000 < opt.limit ? f->size + 10000 : opt.limit : opt.limit, &off,
                    &len))
        write_by(f, f->fd, off, len, "write");
}

static void do_direct_write(struct file *f)
{
    uint64_t off, len;

    if (f->direct < 0 || !range_below(f, opt.limit, &off, &len))
        return;
    to_pages(&off, &len);
    if (len)
        write_by(f, f->direct, off, len, "direct write");
}

static void do_append(struct file *f)
{
    uint64_t len = draw_len(50000);
    int fd;

    if (f->size + len > opt.limit)
        return;
    note(f, "append %lu to %lu", len, f->size);
    fd = open(f->name, O_WRONLY | O_APPEND | (draw(4) ? 0 : O_SYNC));
    fill_buf(len);
    if (fd < 0 || write(fd, buf, len) != (ssize_t)len || close(fd) < 0)
        failed(f, "append of %lu", len);
    memcpy(f->model + f->size, buf, len);
    f->size += len;
}

/* Mappings never reach beyond the end: that would be SIGBUS. */
static uint8_t *map(struct file *f, uint64_t off, uint64_t len, int prot, uint64_t *skip)
{
    *skip = off % PAGE;
    uint8_t *p = mmap(NULL, len + *skip, prot, MAP_SHARED, f->fd, (off_t)(off - *skip));
    if (p == MAP_FAILED)
        failed(f, "mmap of %lu at %lu", len, off);
    return p;
}

static void do_map_read(struct file *f)
{
    uint64_t off, len, skip;

    if (!opt.mmap || !range_below(f, f->size, &off, &len))
        return;
    note(f, "mapped read %lu at %lu", len, off);
    uint8_t *p = map(f, off, len, PROT_READ, &skip);
    compare(f, p + skip, off, len, "mapped read");
    munmap(p, len + skip);
}

static void do_map_write(struct file *f)
{
    uint64_t off, len, skip;
    bool sync = draw(4) == 0;

    if (!opt.mmap || !range_below(f, f->size, &off, &len))
        return;
    note(f, "mapped write %lu at %lu%s", len, off, sync ? ", msync" : "");
    uint8_t *p = map(f, off, len, PROT_READ | PROT_WRITE, &skip);
    fill_buf(len);
    memcpy(p + skip, buf, len);
    if (sync && msync(p, len + skip, MS_SYNC) < 0)
        failed(f, "msync");
    munmap(p, len + skip);
    memcpy(f->model + off, buf, len);
}

static void do_truncate(struct file *f)
{
    uint64_t size = draw(20) == 0 ? 0 : draw(3) ? draw_off(f, f->size + 1) : draw_off(f, opt.limit);

    note(f, "truncate %lu to %lu", f->size, size);
    if (ftruncate(f->fd, (off_t)size) < 0)
        failed(f, "truncate to %lu", size);
    if (size < f->size)
        memset(f->model + size, 0, f->size - size);
    f->size = size;
}

static void do_punch(struct file *f)
{
    uint64_t off, len;

    if (!range_below(f, opt.limit, &off, &len))
        return;
    note(f, "punch %lu at %lu", len, off);
    if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len) < 0)
        failed(f, "punch of %lu at %lu", len, off);
    memset(f->model + off, 0, len);
}

static void do_zero(struct file *f)
{
    uint64_t off, len;
    bool keep = draw(2);

    if (!range_below(f, opt.limit, &off, &len))
        return;
    note(f, "zero %lu at %lu%s", len, off, keep ? ", keeping the size" : "");
    if (fallocate(f->fd, FALLOC_FL_ZERO_RANGE | (keep ? FALLOC_FL_KEEP_SIZE : 0), (off_t)off, (off_t)len) < 0)
        failed(f, "zero of %lu at %lu", len, off);
    memset(f->model + off, 0, len);
    if (!keep)
        grown(f, off + len);
}

static void do_preallocate(struct file *f)
{
    uint64_t off, len;
    bool keep = draw(2);

    if (!range_below(f, opt.limit, &off, &len))
        return;
    note(f, "preallocate %lu at %lu%s", len, off, keep ? ", keeping the size" : "");
    if (fallocate(f->fd, keep ? FALLOC_FL_KEEP_SIZE : 0, (off_t)off, (off_t)len) < 0)
        failed(f, "preallocation of %lu at %lu", len, off);
    if (!keep)
        grown(f, off + len);
}

static void do_copy(struct file *f)
{
    struct file *to = &files[draw(opt.nfiles)];
    unsigned target = (unsigned)(to - files), source = (unsigned)(f - files);
    uint64_t off, len, at;

    if (!range_below(f, f->size, &off, &len))
        return;
    at = draw_off(to, opt.limit);
    if (draw(2)) { /* as a clone */
        off = off / PAGE * PAGE;
        at = at / PAGE * PAGE;
        len = off + len < f->size ? (len + PAGE - 1) / PAGE * PAGE : len;
    }
    if (off + len > f->size)
        len = f->size - off;
    if (at + len > opt.limit)
        len = opt.limit - at;
    if (len == 0 || (to == f && at < off + len && off < at + len))
        return;
    note(f, "copy %lu from %lu to fsx-%u at %lu", len, off, target, at);
    if (to != f)
        note(to, "copy %lu from fsx-%u at %lu to %lu", len, source, off, at);
    for (uint64_t done = 0; done < len;) {
        off_t a = (off_t)(off + done), b = (off_t)(at + done);
        ssize_t n = copy_file_range(f->fd, &a, to->fd, &b, len - done, 0);
        if (n <= 0)
            failed(f, "copy of %lu after %lu returns %zd", len, done, n);
        done += (uint64_t)n;
    }
    memmove(to->model + at, f->model + off, len);
    grown(to, at + len);
}

static void do_fsync(struct file *f)
{
    note(f, "fsync");
    if ((draw(2) ? fsync(f->fd) : fdatasync(f->fd)) < 0)
        failed(f, "fsync");
}

/* Bytes that aren't zero lie in data; what is told to be a hole is zeros. */
static void do_seek(struct file *f)
{
    uint64_t off = draw_off(f, opt.limit);

    note(f, "seek from %lu", off);
    off_t data = lseek(f->fd, (off_t)off, SEEK_DATA);
    if (data < 0 && errno != ENXIO)
        failed(f, "SEEK_DATA");
    uint64_t end = data < 0 ? f->size : (uint64_t)data;
    for (uint64_t k = off; k < end; k++)
        if (f->model[k])
            failed(f, "SEEK_DATA from %lu returns %ld, but byte %lu is %02x", off, (long)data, k,
                   f->model[k]);
    if (off >= f->size)
        return;
    off_t hole = lseek(f->fd, (off_t)off, SEEK_HOLE);
    if (hole < (off_t)off || hole > (off_t)f->size)
        failed(f, "SEEK_HOLE from %lu returns %ld, size is %lu", off, (long)hole, f->size);
}

static void do_stat(struct file *f)
{
    struct stat st;

    if (fstat(f->fd, &st) < 0 || (uint64_t)st.st_size != f->size)
        failed(f, "the size is %ld, not %lu", (long)st.st_size, f->size);
}

static void open_file(struct file *f)
{
    f->fd = open(f->name, O_RDWR | O_CREAT, 0644);
    f->direct = opt.direct ? open(f->name, O_RDWR | O_DIRECT) : -1;
    if (f->fd < 0 || (opt.direct && f->direct < 0))
        failed(f, "open");
}

static void do_reopen(struct file *f)
{
    note(f, "reopen");
    if (close(f->fd) < 0 || (f->direct >= 0 && close(f->direct) < 0))
        failed(f, "close");
    open_file(f);
}

static void do_drop_cache(struct file *f)
{
    note(f, "drop the cache");
    fdatasync(f->fd);
    posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* The whole, read anew. */
static void verify(struct file *f)
{
    do_stat(f);
    ssize_t n = pread(f->fd, scratch, opt.limit, 0);
    if (n != (ssize_t)f->size)
        failed(f, "the whole is %zd bytes, not %lu", n, f->size);
    compare(f, scratch, 0, f->size, "the whole");
}

static void do_verify(struct file *f)
{
    note(f, "verify");
    verify(f);
}

static const struct {
    const char *name;
    void (*run)(struct file *f);
    unsigned weight;
} ops[] = {
    {"read", do_read, 20},
    {"direct read", do_direct_read, 8},
    {"mapped read", do_map_read, 10},
    {"write", do_write, 24},
    {"direct write", do_direct_write, 8},
    {"mapped write", do_map_write, 12},
    {"append", do_append, 4},
    {"truncate", do_truncate, 6},
    {"punch", do_punch, 5},
    {"zero", do_zero, 3},
    {"preallocate", do_preallocate, 3},
    {"copy", do_copy, 8},
    {"fsync", do_fsync, 2},
    {"seek", do_seek, 3},
    {"stat", do_stat, 4},
    {"reopen", do_reopen, 2},
    {"drop cache", do_drop_cache, 2},
    {"verify", do_verify, 1},
};
#define NOPS (sizeof(ops) / sizeof(ops[0]))

static void step(void)
{
    unsigned sum = 0, k = 0;

    for (unsigned i = 0; i < NOPS; i++)
        sum += ops[i].weight;
    uint64_t pick = draw(sum);
    while (pick >= ops[k].weight)
        pick -= ops[k++].weight;
    counts[k]++;
    ops[k].run(&files[draw(opt.nfiles)]);
}

static void prepare(void)
{
    if (posix_memalign((void **)&buf, PAGE, opt.limit + PAGE) ||
        posix_memalign((void **)&scratch, PAGE, opt.limit + PAGE))
        error(2, ENOMEM, "buffers");
    for (unsigned k = 0; k < opt.nfiles; k++) {
        struct file *f = &files[k];
        snprintf(f->name, sizeof(f->name), "fsx-%u", k);
        f->model = calloc(1, opt.limit + PAGE);
        if (!f->model)
            error(2, ENOMEM, "models");
        unlink(f->name);
        open_file(f);
    }
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'},      {"ops", 1, NULL, 'o'},
                                            {"files", 1, NULL, 'f'},     {"size", 1, NULL, 'l'},
                                            {"no-direct", 0, NULL, 'D'}, {"no-mmap", 0, NULL, 'M'},
                                            {"verbose", 0, NULL, 'v'},   {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 's':
            opt.seed = strtoull(optarg, NULL, 0);
            break;
        case 'o':
            opt.ops = strtoull(optarg, NULL, 0);
            break;
        case 'f':
            opt.nfiles = (unsigned)strtoul(optarg, NULL, 0);
            break;
        case 'l':
            opt.limit = strtoull(optarg, NULL, 0) / PAGE * PAGE;
            break;
        case 'D':
            opt.direct = false;
            break;
        case 'M':
            opt.mmap = false;
            break;
        case 'v':
            opt.verbose = true;
            break;
        default:
            exit(2);
        }
    }
    if (optind + 1 != argc || opt.nfiles < 1 || opt.nfiles > MAX_FILES || opt.limit < 16 * PAGE)
        error(2, 0,
              "usage: fsx DIR [--seed N] [--ops N] [--files 1-8] [--size BYTES] [--no-direct] [--no-mmap] "
              "[--verbose]");
    if (chdir(argv[optind]) < 0)
        error(2, errno, "%s", argv[optind]);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    prepare();
    for (op = 1; op <= opt.ops; op++) {
        step();
        if (op % 100000 == 0)
            printf("%lu operations\n", op);
    }
    for (unsigned k = 0; k < opt.nfiles; k++) {
        verify(&files[k]);
        if (fsync(files[k].fd) < 0)
            failed(&files[k], "fsync");
        do_drop_cache(&files[k]);
        do_reopen(&files[k]);
        verify(&files[k]);
    }
    printf("seed %lu: %lu operations, nothing differs (", opt.seed, opt.ops);
    for (unsigned k = 0; k < NOPS; k++)
        printf("%s%s %lu", k ? ", " : "", ops[k].name, counts[k]);
    printf(")\n");
    return 0;
}
