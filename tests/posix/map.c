/* Mappings, O_DIRECT, and how they see each other. */
#include "tests/posix/case.h"

#include <linux/falloc.h>
#include <signal.h>
#include <setjmp.h>
#include <sys/mman.h>

#define MIB (1 << 20)
static char data[MIB], back[MIB];

CASE(shared_mapping_and_calls_agree)
{
    int fd = new_file("f");
    CHECK(ftruncate(fd, MIB) == 0);
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    fill(data, MIB, 4);
    memcpy(p, data, MIB);
    CHECK(pread(fd, back, MIB, 0) == MIB && !memcmp(back, data, MIB));
    CHECK(pwrite(fd, "by call", 7, 5000) == 7 && !memcmp(p + 5000, "by call", 7));
    memcpy(data + 5000, "by call", 7);
    CHECK(msync(p, MIB, MS_SYNC) == 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 8192) == 0 &&
          all_zero(p + 8192, 8192));
    memset(data + 8192, 0, 8192);
    p[8200] = 'm'; /* a page of a hole */
    data[8200] = 'm';
    close(fd);
    CHECK(munmap(p, MIB) == 0 && file_is("f", data, MIB));
}

CASE(mapping_outlives_name_and_descriptor)
{
    put_file("f", "abcdef", 6);
    int fd = open("f", O_RDWR);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(link("f", "g") == 0 && unlink("f") == 0 && close(fd) == 0);
    p[0] = 'X';
    CHECK(msync(p, 4096, MS_SYNC) == 0 && file_is("g", "Xbcdef", 6));
    CHECK(all_zero(p + 6, 4090));
    p[100] = 'y'; /* beyond the end: stays out of the file */
    CHECK(msync(p, 4096, MS_SYNC) == 0 && munmap(p, 4096) == 0 && stat_of("g").st_size == 6);
    CHECK(truncate("g", 200) == 0);
    fd = open("g", O_RDONLY);
    CHECK(pread(fd, back, 200, 0) == 200 && all_zero(back + 6, 194));
    close(fd);
}

CASE(private_mapping_keeps_to_itself)
{
    put_file("f", "abc", 3);
    int fd = open("f", O_RDONLY);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    p[0] = 'X';
    CHECK(file_is("f", "abc", 3));
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
    munmap(p, 4096);
    close(fd);
}

static sigjmp_buf caught;
static void on_bus(int sig)
{
    (void)sig;
    siglongjmp(caught, 1);
}

CASE(mapping_beyond_the_end)
{
    int fd = new_file("f");
    CHECK(ftruncate(fd, 3 * 4096) == 0);
    char *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(p, 1, 3 * 4096);
    CHECK(ftruncate(fd, 4096 + 10) == 0 && all_zero(p + 4096 + 10, 4096 - 10));
    signal(SIGBUS, on_bus);
    volatile bool bus = true;
    if (sigsetjmp(caught, 1) == 0) {
        *(volatile char *)(p + 2 * 4096) = 1;
        bus = false;
    }
    signal(SIGBUS, SIG_DFL);
    CHECK(bus);
    CHECK(ftruncate(fd, 3 * 4096) == 0 && all_zero(p + 4096 + 10, 2 * 4096 - 10) && p[0] == 1 &&
          p[4096 + 9] == 1);
    munmap(p, 3 * 4096);
    close(fd);
}

CASE(direct_io)
{
    char *block = NULL;
    int fd = open("f", O_RDWR | O_CREAT | O_DIRECT, 0644), plain;

    CHECK(fd >= 0 || (errno == EINVAL && !on_fuse()));
    if (fd < 0)
        return;
    CHECK(posix_memalign((void **)&block, 4096, MIB) == 0);
    fill(block, MIB, 6);
    CHECK(pwrite(fd, block, MIB, 0) == MIB && pwrite(fd, block, 4096, 2 * MIB) == 4096);
    plain = open("f", O_RDWR);
    CHECK(pread(plain, back, MIB, 0) == MIB && !memcmp(back, block, MIB));
    CHECK(pwrite(plain, "plain", 5, 4096) == 5); /* cached, then read directly */
    memcpy(block + 4096, "plain", 5);
    memcpy(back, block, MIB);
    memset(block, 0, MIB);
    CHECK(pread(fd, block, MIB, 0) == MIB && !memcmp(back, block, MIB));
    memset(block, 'd', 4096); /* written directly, then read from a cache that must know */
    CHECK(pwrite(fd, block, 4096, 8192) == 4096 && pread(plain, back, 4096, 8192) == 4096 &&
          !memcmp(back, block, 4096));
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, plain, 0);
    p[16384] = 'M';
    CHECK(pread(fd, block, 4096, 16384) == 4096 && block[0] == 'M');
    memset(block, 'w', 4096);
    CHECK(pwrite(fd, block, 4096, 16384) == 4096 && p[16384] == 'w' && p[20479] == 'w');
    CHECK(pread(fd, block, 4096, 2 * MIB + 4096) == 0);
    CHECK(ftruncate(plain, 2 * MIB + 100) == 0 && pread(fd, block, 4096, 2 * MIB) == 100);
    CHECK(fcntl(plain, F_SETFL, O_DIRECT) == 0 && pread(plain, block, 4096, 0) == 4096);
    munmap(p, MIB);
    close(fd);
    close(plain);
    free(block);
}
