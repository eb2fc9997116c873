/* tmpfile DIR NAME TEXT: makes a file without a name in DIR (O_TMPFILE), writes TEXT into it, and then gives it the name DIR/NAME. Another one is made, and never gets a name. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

int main(int argc, char **argv)
{
    char proc[64];
    struct stat st;

    check(argc == 4, "usage: tmpfile DIR NAME TEXT");
    int dir = open(argv[1], O_PATH | O_DIRECTORY), fd = openat(dir, ".", O_TMPFILE | O_RDWR, 0640);
    check(dir >= 0 && fd >= 0, "O_TMPFILE");
    check(fstat(fd, &st) == 0 && st.st_nlink == 0, "no links yet");
    check(write(fd, argv[3], strlen(argv[3])) == (ssize_t)strlen(argv[3]), "write");
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    check(linkat(AT_FDCWD, proc, dir, argv[2], AT_SYMLINK_FOLLOW) == 0, "linkat");
    check(fstat(fd, &st) == 0 && st.st_nlink == 1, "one link");
    fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    check(fd >= 0 && write(fd, "x", 1) == 1 && fsync(fd) == 0, "one that goes with its last close");
    return 0;
}
