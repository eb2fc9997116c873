#include "cli/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void unescape(char *s)
{
    char *out = s;
    while (*s) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 4;
        } else {
            *out++ = *s++;
        }
    }
    *out = '\0';
}

/* "36 35 98:0 /root /dir options [optional ...] - type source superoptions" */
static int parse(char *line, struct sfs_cli_mount *m)
{
    char *fields[6], *save = NULL, *word;
    unsigned n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (word = strtok_r(line, " ", &save); word && n < 6; word = strtok_r(NULL, " ", &save))
        fields[n++] = word;
    while (word && strcmp(word, "-") != 0)
        word = strtok_r(NULL, " ", &save);
    char *type = word ? strtok_r(NULL, " ", &save) : NULL;
    char *source = type ? strtok_r(NULL, " ", &save) : NULL;
    if (n < 6 || !source)
        return -EINVAL;
    unescape(fields[3]);
    unescape(fields[4]);
    unescape(source);
    *m = (struct sfs_cli_mount){
        .id = atoi(fields[0]), .dev = fields[2], .root = fields[3], .dir = fields[4], .type = type, .source = source};
    return 0;
}

int sfs_cli_mounts_each(int (*fn)(const struct sfs_cli_mount *m, void *ctx), void *ctx)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (!f)
        return -errno;
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    while (rc == 0 && getline(&line, &cap, f) > 0) {
        struct sfs_cli_mount m;
        if (parse(line, &m) == 0)
            rc = fn(&m, ctx);
    }
    free(line);
    fclose(f);
    return rc;
}
