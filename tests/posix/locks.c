/* flock, POSIX record locks, open-file-description locks. */
#include "tests/posix/case.h"

#include <sys/file.h>
#include <sys/wait.h>

static struct flock range(short type, off_t start, off_t len)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

static int fd_shared;

static void other_process(void)
{
    int fd = open("f", O_RDWR);
    struct flock l = range(F_WRLCK, 10, 10);

    CHECK(flock(fd, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    CHECK(fcntl(fd, F_SETLK, &l) == -1 && (errno == EAGAIN || errno == EACCES));
    CHECK(fcntl(fd, F_GETLK, &l) == 0 && l.l_type == F_WRLCK && l.l_start == 10 && l.l_len == 10 &&
          l.l_pid == getppid());
    l = range(F_WRLCK, 20, 0);
    CHECK(fcntl(fd, F_SETLK, &l) == 0);
    CHECK(flock(fd_shared, LOCK_EX | LOCK_NB) == 0); /* the same open file as the parent's */
    close(fd);
}

CASE(locks_between_processes)
{
    struct flock l = range(F_WRLCK, 10, 10);

    fd_shared = new_file("f");
    CHECK(flock(fd_shared, LOCK_EX) == 0 && fcntl(fd_shared, F_SETLK, &l) == 0);
    in_child(other_process);
    l = range(F_WRLCK, 20, 0); /* the child's went with it */
    CHECK(fcntl(fd_shared, F_SETLK, &l) == 0);
    l.l_type = F_UNLCK;
    CHECK(fcntl(fd_shared, F_SETLK, &l) == 0);
    int again = open("f", O_RDONLY);
    CHECK(flock(again, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    CHECK(flock(fd_shared, LOCK_UN) == 0 && flock(again, LOCK_SH | LOCK_NB) == 0 &&
          flock(fd_shared, LOCK_SH | LOCK_NB) == 0);
    close(again);
    close(fd_shared);
}

CASE(locks_of_open_files)
{
    int a = new_file("f"), b = open("f", O_RDWR);
    struct flock l = range(F_WRLCK, 0, 100);

    CHECK(fcntl(a, F_OFD_SETLK, &l) == 0);
    l = range(F_WRLCK, 50, 100);
    CHECK(fcntl(b, F_OFD_SETLK, &l) == -1 && errno == EAGAIN); /* even within one process */
    l = range(F_RDLCK, 50, 100);
    CHECK(fcntl(b, F_OFD_GETLK, &l) == 0 && l.l_type == F_WRLCK && l.l_start == 0 && l.l_len == 100 &&
          l.l_pid == -1);
    int c = open("f", O_RDWR);
    close(c); /* closing another descriptor drops POSIX locks, not these */
    l = range(F_RDLCK, 50, 100);
    CHECK(fcntl(b, F_OFD_SETLK, &l) == -1);
    close(a);
    CHECK(fcntl(b, F_OFD_SETLK, &l) == 0);
    close(b);
}

static void wait_for_lock(void)
{
    int fd = open("f", O_RDWR);
    struct flock l = range(F_WRLCK, 0, 0);
    char c;

    CHECK(fcntl(fd, F_SETLKW, &l) == 0);
    CHECK(pread(fd, &c, 1, 0) == 1 && c == 'p'); /* what the other wrote before giving it up */
    close(fd);
}

CASE(locks_are_waited_for)
{
    int fd = new_file("f"), status = 1;
    struct flock l = range(F_WRLCK, 0, 0);

    CHECK(fcntl(fd, F_SETLK, &l) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        in_child(wait_for_lock);
        _exit(0);
    }
    usleep(50000);
    CHECK(write(fd, "p", 1) == 1);
    l.l_type = F_UNLCK;
    CHECK(fcntl(fd, F_SETLK, &l) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(fd);
}
