/* fsyncer write DIR LOG SEED SECONDS: works in DIR and writes into LOG, outside of it, what it is about to do ("I") and what fsync has acknowledged ("A"), until
 *                                     the time is over (exit 0) or the mount goes away (exit 3).
 * fsyncer check DIR LOG SEED          holds DIR against LOG: exit 0 all whole, 1 something is lost or torn, 2 could not look. What it found is noted in LOG as
 *                                     acknowledged: what was there after one recovery must be there after the next.
 *
 * In DIR:
 *   append    a stream, appended to in records; fsync after each. Any size from the acknowledged one up; never a wrong byte
 *   block     BLOCKS blocks, overwritten in place, several and then fsync. Each block is whole, and of a version between the acknowledged one and the last begun
 *   swap.K    replaced by write to a new file, fsync, rename. Whole; a version between the acknowledged one and the last begun; without fsync of the directory: an older one or it
 *   new.N     new files, fsynced: there and whole once acknowledged
 *   loose.N   new files, not fsynced: absent, or the beginning of what was written */
#include "tests/mount/stream.h"

#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 256u
#define BLOCK 4096u
#define SWAPS 8u
#define KEEP_NEW 30u
#define APPEND_MAX (8u << 20)

struct range {
    uint64_t acked, begun;
};
static struct range append_size, block[BLOCKS], swap_file[SWAPS];
static uint64_t next_new, oldest_new, next_loose, version, seed, counter;
static struct range *news; /* [N]: acked: 1 fsynced, 2 being deleted */
static uint64_t nnews;
static int dir_fd, log_fd;
static unsigned long nbad;

/* The mount went away: that is what the test does to us. Anything else that fails is an error. */
static void failed(const char *what)
{
    int code = errno;
    if (code == ENOTCONN || code == EIO || code == ECONNABORTED || code == ENOENT || code == ENODEV || code == ESHUTDOWN || code == EINTR)
        exit(3);
    error(2, code, "%s", what);
}

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *fmt, ...)
{
    char line[200];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (write(log_fd, line, (size_t)n) != n)
        error(2, errno, "log");
}

static uint64_t rnd(uint64_t below)
{
    return stream_word(seed, ++counter) % below;
}

static struct range *new_at(uint64_t n)
{
    if (n >= nnews) {
        uint64_t want = n * 2 + 64;
        news = realloc(news, want * sizeof(*news));
        if (!news)
            error(2, ENOMEM, "fsyncer");
        memset(news + nnews, 0, (want - nnews) * sizeof(*news));
        nnews = want;
    }
    return &news[n];
}

static struct range *range_of(const char *kind, uint64_t k)
{
    if (!strcmp(kind, "append"))
        return &append_size;
    if (!strcmp(kind, "block") && k < BLOCKS)
        return &block[k];
    if (!strcmp(kind, "swap") && k < SWAPS)
        return &swap_file[k];
    if (!strcmp(kind, "new"))
        return new_at(k);
    error(2, 0, "log: %s %lu?", kind, (unsigned long)k);
    return NULL;
}

static void read_log(const char *path)
{
    FILE *f = fopen(path, "r");
    char what, kind[16];
    unsigned long k, v;
    if (!f)
        return;
    while (fscanf(f, " %c %15s %lu %lu", &what, kind, &k, &v) == 4) {
        if (!strcmp(kind, "loose")) {
            next_loose = k + 1;
            continue;
        }
        struct range *r = range_of(kind, k);
        if (v > r->begun)
            r->begun = v;
        if (what == 'A' && v > r->acked)
            r->acked = v;
        if (!strcmp(kind, "new") && k >= next_new)
            next_new = k + 1;
        if (!strcmp(kind, "new") && v == 2 && k >= oldest_new)
            oldest_new = k + 1;
        if (strcmp(kind, "append") && strcmp(kind, "new") && v > version)
            version = v;
    }
    fclose(f);
}

static int open_here(const char *name, int flags)
{
    int fd = openat(dir_fd, name, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        failed(name);
    return fd;
}

static void put(int fd, uint64_t content, uint64_t off, size_t len)
{
    static uint8_t buf[1 << 20];
    while (len) {
        size_t n = len < sizeof(buf) ? len : sizeof(buf);
        stream_fill(content, off, buf, n);
        ssize_t did = pwrite(fd, buf, n, (off_t)off);
        if (did <= 0)
            failed("write");
        off += (size_t)did;
        len -= (size_t)did;
    }
}

static void sync_fd(int fd, bool data)
{
    if ((data ? fdatasync(fd) : fsync(fd)) < 0)
        failed("fsync");
}

static void close_fd(int fd)
{
    if (close(fd) < 0)
        failed("close");
}

/* --- what is written ------------------------------------------------------------------------------------------------------------------- */
static uint64_t swap_bytes(uint64_t v)
{
    return 16 + stream_word(v, 1) % 300000;
}

static uint64_t new_bytes(uint64_t n)
{
    uint64_t kind = stream_word(n, 2) % 4;
    return kind < 2 ? stream_word(n, 3) % 3000 : stream_word(n, 3) % (kind == 2 ? 60000 : 1500000);
}

static void step_append(void)
{
    int fd = open_here("append", O_WRONLY | O_CREAT);
    if (append_size.begun > APPEND_MAX) { /* long enough: it only takes time to check */
        close_fd(fd);
        return;
    }
    for (uint64_t n = 1 + rnd(4); n > 0; n--) {
        uint64_t from = append_size.begun, len = 1 + rnd(rnd(3) ? 5000 : 150000);
        struct stat st;
        if (fstat(fd, &st) < 0)
            failed("stat");
        from = (uint64_t)st.st_size;
        note("I append 0 %lu\n", (unsigned long)(from + len));
        put(fd, seed, from, len);
        sync_fd(fd, rnd(2));
        append_size.begun = append_size.acked = from + len;
        note("A append 0 %lu\n", (unsigned long)(from + len));
    }
    close_fd(fd);
}

static void make_block(uint64_t b, uint64_t v, uint8_t *out)
{
    memcpy(out, &v, sizeof(v));
    stream_fill(v * BLOCKS + b, 0, out + sizeof(v), BLOCK - sizeof(v));
}

static void step_block(void)
{
    uint8_t buf[BLOCK];
    uint64_t which[16], v = ++version, n = 1 + rnd(16);
    int fd = open_here("block", O_RDWR | O_CREAT);
    for (uint64_t i = 0; i < n; i++) {
        which[i] = rnd(BLOCKS);
        note("I block %lu %lu\n", (unsigned long)which[i], (unsigned long)v);
        make_block(which[i], v, buf);
        if (pwrite(fd, buf, BLOCK, (off_t)(which[i] * BLOCK)) != BLOCK)
            failed("write");
    }
    sync_fd(fd, rnd(2));
    for (uint64_t i = 0; i < n; i++)
        note("A block %lu %lu\n", (unsigned long)which[i], (unsigned long)v);
    close_fd(fd);
}

static void step_swap(void)
{
    uint64_t k = rnd(SWAPS), v = ++version;
    char name[32];
    /* Without fsync only over an existing file: the first time, rename owes nothing. */
    bool first = !swap_file[k].acked, synced = first || rnd(3) != 0, dir_synced = first || (synced && rnd(2));
    snprintf(name, sizeof(name), "swap.%lu", (unsigned long)k);
    note("I swap %lu %lu\n", (unsigned long)k, (unsigned long)v);
    int fd = open_here("swap.tmp", O_WRONLY | O_CREAT | O_TRUNC);
    uint64_t head = v;
    if (pwrite(fd, &head, sizeof(head), 0) != sizeof(head))
        failed("write");
    put(fd, v, sizeof(head), swap_bytes(v) - sizeof(head));
    if (synced)
        sync_fd(fd, false);
    close_fd(fd);
    if (renameat(dir_fd, "swap.tmp", dir_fd, name) < 0)
        failed("rename");
    if (dir_synced) {
        sync_fd(dir_fd, false);
        note("A swap %lu %lu\n", (unsigned long)k, (unsigned long)v);
        swap_file[k].acked = v;
    }
}

static void step_new(void)
{
    uint64_t n = next_new++;
    char name[32];
    snprintf(name, sizeof(name), "new.%lu", (unsigned long)n);
    note("I new %lu 1\n", (unsigned long)n);
    int fd = open_here(name, O_WRONLY | O_CREAT | O_EXCL);
    put(fd, n, 0, new_bytes(n));
    sync_fd(fd, false);
    note("A new %lu 1\n", (unsigned long)n);
    close_fd(fd);
    if (n - oldest_new > KEEP_NEW) {
        snprintf(name, sizeof(name), "new.%lu", (unsigned long)oldest_new);
        note("A new %lu 2\n", (unsigned long)oldest_new);
        if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
            failed("unlink");
        oldest_new++;
    }
}

static void step_loose(void)
{
    uint64_t n = next_loose++;
    char name[32];
    snprintf(name, sizeof(name), "loose.%lu", (unsigned long)n);
    note("I loose %lu 1\n", (unsigned long)n);
    int fd = open_here(name, O_WRONLY | O_CREAT | O_EXCL);
    put(fd, n, 0, new_bytes(n));
    close_fd(fd);
    if (n >= KEEP_NEW) {
        snprintf(name, sizeof(name), "loose.%lu", (unsigned long)(n - KEEP_NEW));
        unlinkat(dir_fd, name, 0);
    }
}

static void run(double seconds)
{
    static void (*const steps[])(void) = {step_append, step_block, step_swap, step_new, step_loose};
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        steps[rnd(sizeof(steps) / sizeof(steps[0]))]();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
}

/* --- what must be there -------------------------------------------------------------------------------------------------------------------- */
static void bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void bad(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (nbad++ < 20) {
        vprintf(fmt, ap);
        putchar('\n');
    }
    va_end(ap);
}

/* Reads a whole file; NULL: it isn't there, or cannot be read (then it was reported). */
static uint8_t *slurp(const char *name, size_t *len)
{
    int fd = openat(dir_fd, name, O_RDONLY);
    struct stat st;
    if (fd < 0 && errno != ENOENT)
        bad("%s: open: %s", name, strerror(errno));
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) < 0)
        error(2, errno, "%s", name);
    uint8_t *buf = malloc((size_t)st.st_size + 1);
    if (!buf)
        error(2, ENOMEM, "%s", name);
    for (*len = 0; *len < (size_t)st.st_size;) {
        ssize_t n = read(fd, buf + *len, (size_t)st.st_size - *len);
        if (n < 0) {
            bad("%s: read at %zu: %s", name, *len, strerror(errno));
            free(buf);
            close(fd);
            return NULL;
        }
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    if (*len != (size_t)st.st_size)
        bad("%s: ends at %zu, size is %lld", name, *len, (long long)st.st_size);
    close(fd);
    return buf;
}

static void check_append(void)
{
    size_t len = 0;
    uint8_t *buf = slurp("append", &len);
    if (len < append_size.acked)
        bad("append: %zu bytes, %lu were acknowledged", len, (unsigned long)append_size.acked);
    if (len > append_size.begun)
        bad("append: %zu bytes, only %lu were ever begun", len, (unsigned long)append_size.begun);
    size_t at = buf ? stream_differs(seed, 0, buf, len) : len;
    if (at < len)
        bad("append: wrong byte at %zu of %zu (%lu acknowledged)", at, len, (unsigned long)append_size.acked);
    if (buf)
        note("A append 0 %zu\n", len);
    free(buf);
}

static void check_block(void)
{
    static const uint8_t zeros[BLOCK];
    uint8_t want[BLOCK];
    size_t len = 0;
    uint8_t *buf = slurp("block", &len);
    for (uint64_t b = 0; b < BLOCKS; b++) {
        const uint8_t *at = buf + b * BLOCK;
        uint64_t v = 0;
        if (len >= (b + 1) * BLOCK)
            memcpy(&v, at, sizeof(v));
        else if (len > b * BLOCK && memcmp(at, zeros, len - b * BLOCK))
            bad("block %lu: torn at the end of the file, %zu", (unsigned long)b, len);
        if (v < block[b].acked || v > block[b].begun) {
            bad("block %lu: version %lu, acknowledged %lu, begun %lu", (unsigned long)b, (unsigned long)v, (unsigned long)block[b].acked, (unsigned long)block[b].begun);
            continue;
        }
        if (v == 0 && len >= (b + 1) * BLOCK && memcmp(at, zeros, BLOCK))
            bad("block %lu: torn", (unsigned long)b);
        if (v == 0)
            continue;
        make_block(b, v, want);
        if (memcmp(at, want, BLOCK))
            bad("block %lu: torn, version %lu", (unsigned long)b, (unsigned long)v);
        note("A block %lu %lu\n", (unsigned long)b, (unsigned long)v);
    }
    free(buf);
}

static void check_swap(void)
{
    for (uint64_t k = 0; k < SWAPS; k++) {
        char name[32];
        size_t len = 0;
        uint64_t v = 0;
        snprintf(name, sizeof(name), "swap.%lu", (unsigned long)k);
        uint8_t *buf = slurp(name, &len);
        if (buf && len >= sizeof(v))
            memcpy(&v, buf, sizeof(v));
        if (buf && (len < sizeof(v) || v > swap_file[k].begun || len != swap_bytes(v) || stream_differs(v, sizeof(v), buf + sizeof(v), len - sizeof(v)) < len - sizeof(v)))
            bad("%s: torn: %zu bytes, version %lu", name, len, (unsigned long)v);
        else if (v < swap_file[k].acked)
            bad("%s: version %lu, acknowledged %lu", name, (unsigned long)v, (unsigned long)swap_file[k].acked);
        else if (buf)
            note("A swap %lu %lu\n", (unsigned long)k, (unsigned long)v);
        free(buf);
    }
}

/* The beginning of what was written; all of it when whole. Never other bytes. */
static void check_contents(const char *kind, uint64_t n, bool whole, bool may_be_gone)
{
    char name[32];
    size_t len = 0;
    snprintf(name, sizeof(name), "%s.%lu", kind, (unsigned long)n);
    uint8_t *buf = slurp(name, &len);
    if (!buf && !may_be_gone)
        bad("%s: lost, was fsynced", name);
    if (buf && len > new_bytes(n))
        bad("%s: %zu bytes, %lu were written", name, len, (unsigned long)new_bytes(n));
    if (buf && whole && len < new_bytes(n))
        bad("%s: %zu bytes, %lu were fsynced", name, len, (unsigned long)new_bytes(n));
    if (buf && stream_differs(n, 0, buf, len) < len)
        bad("%s: wrong byte at %zu of %zu", name, stream_differs(n, 0, buf, len), len);
    free(buf);
}

static void check_new(void)
{
    for (uint64_t n = oldest_new > 2 ? oldest_new - 2 : 0; n < next_new; n++)
        check_contents("new", n, new_at(n)->acked == 1, new_at(n)->acked != 1);
    for (uint64_t n = next_loose > KEEP_NEW + 2 ? next_loose - KEEP_NEW - 2 : 0; n < next_loose; n++)
        check_contents("loose", n, false, true);
}

int main(int argc, char **argv)
{
    if (argc < 4 || (strcmp(argv[1], "check") && argc != 6))
        error(2, 0, "usage: fsyncer write DIR LOG SEED SECONDS | fsyncer check DIR LOG SEED");
    bool check = !strcmp(argv[1], "check");
    seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    dir_fd = open(argv[2], O_RDONLY | O_DIRECTORY);
    if (dir_fd < 0 && check)
        error(2, errno, "%s", argv[2]);
    if (dir_fd < 0)
        failed(argv[2]);
    read_log(argv[3]);
    log_fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (log_fd < 0)
        error(2, errno, "%s", argv[3]);
    if (!check) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now); /* other steps in each round; contents depend on the seed alone */
        counter = (uint64_t)now.tv_nsec * 1000003u + (uint64_t)now.tv_sec;
        run(atof(argv[5]));
        return 0;
    }
    check_append();
    check_block();
    check_swap();
    check_new();
    if (nbad)
        printf("%lu things lost or torn\n", nbad);
    return nbad ? 1 : 0;
}
