/* /sbin/umount.spacesfs and /sbin/umount.fuse.spacesfs: what umount(8) runs for the types spacesfs and
 * fuse.spacesfs, so that it returns only when all is durable.
 *
 *   umount.spacesfs DIR [-flnrv] [-N NAMESPACE] [-t TYPE] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/daemon/daemon.h"

#define EXIT_USAGE 1

static const char usage[] = "usage: umount.spacesfs DIR [-flnrv]\n"
                            "Normally run by umount(8).\n";

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    bool lazy = false, force = false, verbose = false;
    int c, rc;

    unsetenv("POSIXLY_CORRECT"); /* umount(8) puts options behind the operand */
    while ((c = getopt_long(argc, argv, "hVflnrvN:t:", long_options, NULL)) != -1) {
        switch (c) {
        case 'f':
            force = true;
            break;
        case 'l':
            lazy = true;
            break;
        case 'v':
            verbose = true;
            break;
        case 'n':
        case 'r':
        case 'N':
        case 't':
            break; /* no mtab; umount(8) itself remounts read-only; the namespace is entered; the type is
                      known */
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            printf("umount.spacesfs %s\n", SFS_VERSION);
            return 0;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    rc = sfs_umount_main(argv[optind], lazy, force);
    if (rc == 0 && verbose)
        printf("%s: %s unmounted\n", program_invocation_short_name, argv[optind]);
    return rc;
}
