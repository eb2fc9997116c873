/* /sbin/mount.spacesfs and /sbin/mount.fuse.spacesfs: what mount(8) runs for the types spacesfs and
 * fuse.spacesfs.
 *
 *   mount.spacesfs SOURCE DIR [-sfnvrw] [-N NAMESPACE] [-o OPTIONS] [-t TYPE] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/daemon/daemon.h"

/* mount(8)'s exit codes. */
#define EXIT_USAGE 1
#define EXIT_SYSTEM 2

static const char usage[] = "usage: mount.spacesfs POOL/SPACE DIR [-fnrsvw] [-o OPTIONS]\n"
                            "POOL is a pool's name, or the path of any of its disks.\n"
                            "Normally run by mount(8); options are listed in mount.spacesfs(8).\n";

/* Adds to a comma list. */
static char *add(char *list, const char *more)
{
    char *joined;

    if (asprintf(&joined, "%s%s%s", list ? list : "", list ? "," : "", more) < 0) {
        fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
        exit(EXIT_SYSTEM);
    }
    free(list);
    return joined;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    bool fake = false, verbose = false;
    struct sfs_mount_opts opts;
    struct sfs_error err;
    char *options = NULL;
    int c, rc;

    unsetenv("POSIXLY_CORRECT"); /* mount(8) puts options behind operands */
    while ((c = getopt_long(argc, argv, "hVfnrsvwN:o:t:", long_options, NULL)) != -1) {
        switch (c) {
        case 'f':
            fake = true;
            break;
        case 'v':
            verbose = true;
            break;
        case 'r':
            options = add(options, "ro");
            break;
        case 'w':
            options = add(options, "rw");
            break;
        case 'o':
            options = add(options, optarg);
            break;
        case 'n':
        case 's':
        case 'N':
        case 't':
            break; /* there is no mtab; mount(8) has entered the namespace; the type is known */
        case 'h':
            fputs(usage, stdout);
            free(options);
            return 0;
        case 'V':
            printf("mount.spacesfs %s\n", SFS_VERSION);
            free(options);
            return 0;
        default:
            fputs(usage, stderr);
            free(options);
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 2) {
        fputs(usage, stderr);
        free(options);
        return EXIT_USAGE;
    }
    rc = sfs_mount_opts_parse(options, geteuid() == 0, &opts, &err);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, err.text);
        free(options);
        return EXIT_USAGE;
    }
    opts.fake = fake;
    rc = sfs_mount_main(argv[optind], argv[optind + 1], &opts, options, verbose);
    free(options);
    return rc;
}
