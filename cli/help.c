/* Help texts, from the table of commands, wrapped to 80 columns. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include "cli/ui.h"

static void print_entry(const char *left, const char *text)
{
    const unsigned column = 26;
    unsigned len = 2 + (unsigned)strlen(left);
    printf("  %s", left);
    if (len + 2 > column) {
        putchar('\n');
        len = 0;
    }
    printf("%*s", (int)(column - len), "");
    sfs_ui_wrap(text, column, column);
}

static void print_commands(const char *group)
{
    size_t glen = group ? strlen(group) : 0;
    for (unsigned i = 0; i < sfs_ncommands; i++) {
        const struct sfs_command *k = &sfs_commands[i];
        if (group ? strncmp(k->name, group, glen) || k->name[glen] != ' ' : strchr(k->name, ' ') != NULL)
            continue;
        print_entry(k->name, k->summary);
    }
}

void sfs_help_program(void)
{
    printf("Usage: spacesfs COMMAND [ARGUMENTS] [OPTIONS]\n\n");
    sfs_ui_wrap("Pools of disks, carved into spaces: mountable filesystems that heal themselves.", 0, 0);
    for (unsigned i = 0; i < sfs_ncommand_groups; i++) {
        printf("\n%s:\n", sfs_command_groups[i].summary);
        print_commands(sfs_command_groups[i].name);
    }
    printf("\nUsing them:\n");
    print_commands(NULL);
    printf("\n");
    print_entry("--help", "Help; also behind every command.");
    print_entry("--version", "Show the version.");
    printf("\n");
    sfs_ui_wrap("POOL is a pool's name, or the path of any of its disks. Sizes take units: 4K, 10G, 1.5T "
                "(powers of 1024), 10GB (of 1000). Exit status: 0 "
                "done, 1 failed, 2 used wrongly; that of `status` says how the pool is. Manual: spacesfs(8).",
                0, 0);
}

void sfs_help_group(const char *group)
{
    printf("Usage: spacesfs %s COMMAND [ARGUMENTS] [OPTIONS]\n\n", group);
    print_commands(group);
    printf("\n");
    char text[128];
    snprintf(text, sizeof(text), "`spacesfs %s COMMAND --help` says more. Manual: spacesfs-%s(8).", group,
             group);
    sfs_ui_wrap(text, 0, 0);
}

static void print_option(const struct sfs_option *o)
{
    char left[64], letter[8] = "";
    if (o->letter)
        snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    print_entry(left, o->help);
}

void sfs_help_command(const struct sfs_command *k)
{
    printf("Usage: spacesfs %s%s%s [OPTIONS]\n\n", k->name, k->args[0] ? " " : "", k->args);
    sfs_ui_wrap(k->summary, 0, 0);
    if (k->details) {
        printf("\n");
        sfs_ui_wrap(k->details, 0, 0);
    }
    printf("\nOptions:\n");
    for (const struct sfs_option *o = k->options; o && o->name; o++)
        print_option(o);
    for (unsigned bit = 1; bit <= SFS_OPT_JSON; bit <<= 1) {
        if (k->common & bit)
            print_option(sfs_cli_common_option(bit));
    }
    print_entry("-h, --help", "Show this help.");
}

/* Edit distance, with a swap of two neighbours as one step. */
static unsigned distance(const char *a, const char *b)
{
    enum { MAX = 32 };
    unsigned d[MAX + 1][MAX + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX)
        return MAX;
    for (size_t i = 0; i <= n; i++)
        d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *sfs_help_nearest(const char *typed, const char *const *words, unsigned n)
{
    const char *best = NULL;
    unsigned least = strlen(typed) < 5 ? 2 : 3; /* near: fewer steps than this */
    for (unsigned i = 0; i < n; i++) {
        unsigned steps = distance(typed, words[i]);
        if (steps < least ||
            (steps > 0 && !best && strlen(typed) >= 3 && !strncmp(words[i], typed, strlen(typed)))) {
            best = words[i];
            least = steps < least ? steps : least;
        }
    }
    return best;
}
