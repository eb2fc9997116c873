/* spacesfsd: the daemon of one pool by itself, for debugging and for service managers. Mounting starts one by
 * itself.
 *
 *   spacesfsd WHICH [-f] [-o OPTIONS] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/daemon/daemon.h"

static const char usage[] = "usage: spacesfsd POOL [-f] [-o OPTIONS]\n"
                            "Opens a pool and serves it until its last mount has ended; ends by itself when "
                            "nothing is mounted within 10 seconds.\n"
                            "\n"
                            "  POOL          a pool's name, or the path of any of its disks\n"
                            "  -f            stay in the foreground and write the log to standard error\n"
                            "  -o OPTIONS    degraded=yes|ro|no|rw, wait=DURATION, ro (see mount.spacesfs(8))\n"
                            "\n"
                            "SFS_LOG=debug in the environment makes the log more talkative.\n";

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    char pool[SFS_NAME_MAX + 1];
    const char *options = NULL;
    struct sfs_mount_opts opts;
    bool foreground = false;
    struct sfs_error err;
    int c, rc;

    while ((c = getopt_long(argc, argv, "hVfo:", long_options, NULL)) != -1) {
        switch (c) {
        case 'f':
            foreground = true;
            break;
        case 'o':
            options = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            printf("spacesfsd %s\n", SFS_VERSION);
            return 0;
        default:
            fputs(usage, stderr);
            return 1;
        }
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return 1;
    }
    rc = sfs_mount_opts_parse(options, geteuid() == 0, &opts, &err);
    if (rc == 0)
        rc = sfs_daemon_start(argv[optind], &opts, foreground, pool, &err);
    if (rc < 0) {
        fprintf(stderr, "spacesfsd: %s\n", err.text);
        return 1;
    }
    return 0;
}
