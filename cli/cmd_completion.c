/* spacesfs completion: what a shell needs to know to complete command lines, from the table of commands.
 *
 * Both scripts are the same engine in two dialects, into which the table is written, as lines of a case: for each command its arguments (as in the help), its flags, and its options with a value, each with
 * what may stand for it. Names of pools come from the list that is kept of them, so that pressing Tab opens
 * nothing; only behind "POOL/" is the pool itself asked. */
#include "cli/command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* completion.bash and completion.zsh, made into strings: @TABLE@ and @WORDS@ stand where the table goes. */
extern const char sfs_completion_bash[], sfs_completion_zsh[];

/* Which words of a command's arguments are asked for: "[POOL]" is POOL, DIR of umount a mountpoint, DISK of a
 * pool that has it a member. */
static const char *kind_of(const struct sfs_command *k, const char *word, bool after_pool)
{
    if (!strcmp(word, "DIR") && !strcmp(k->name, "umount"))
        return "MOUNT";
    if (after_pool && (!strcmp(word, "DISK") || !strcmp(word, "OLD")))
        return "MEMBER";
    return !strcmp(word, "bash|zsh") ? "SHELL" : word;
}

static void print_args(const struct sfs_command *k)
{
    char copy[128], *save = NULL;
    bool after_pool = false, first = true;
    snprintf(copy, sizeof(copy), "%s", k->args);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        size_t len;
        word += *word == '[';
        len = strlen(word);
        if (len && word[len - 1] == ']')
            word[len - 1] = '\0';
        after_pool = after_pool || !strcmp(word, "POOL");
        printf("%s%s", first ? "" : " ", kind_of(k, word, after_pool));
        first = false;
    }
}

/* "zstd[:LEVEL]|off" can be zstd or off; SIZE can be anything. */
static void print_values(const char *value)
{
    bool first = true;
    if (!strcmp(value, "R"))
        value = "simple|mirror2|mirror3|parity|parity2"; /* as sfs_resiliency_parse takes them */
    for (const char *p = value; *p;) {
        size_t len = strcspn(p, "|"), word = 0;
        while (word < len && (islower((unsigned char)p[word]) || isdigit((unsigned char)p[word])))
            word++;
        if (word && (word == len || p[word] == '[')) {
            printf("%s%.*s", first ? "" : "|", (int)word, p);
            first = false;
        }
        p += len + (p[len] == '|');
    }
}

static void print_option(const struct sfs_option *o, bool valued)
{
    if ((o->value != NULL) != valued)
        return;
    printf(" --%s", o->name);
    if (valued) {
        putchar('=');
        print_values(o->value);
    }
    if (o->letter) {
        printf(" -%c", o->letter);
        if (valued) {
            putchar('=');
            print_values(o->value);
        }
    }
}

static void print_options(const struct sfs_command *k, bool valued)
{
    for (const struct sfs_option *o = k->options; o && o->name; o++)
        print_option(o, valued);
    for (unsigned bit = 1; bit <= SFS_OPT_JSON; bit <<= 1)
        if (k->common & bit)
            print_option(sfs_cli_common_option(bit), valued);
}

static void print_table(void)
{
    for (unsigned i = 0; i < sfs_ncommands; i++) {
        const struct sfs_command *k = &sfs_commands[i];
        printf("    '%s')\n        args='", k->name);
        print_args(k);
        printf("' flags='");
        print_options(k, false);
        printf(" --help -h' valued='");
        print_options(k, true);
        printf("' ;;\n");
    }
}

static void print_group(const char *group)
{
    size_t len = strlen(group);
    bool first = true;
    for (unsigned i = 0; i < sfs_ncommands; i++) {
        const char *name = sfs_commands[i].name;
        if (strncmp(name, group, len) != 0 || name[len] != ' ')
            continue;
        printf("%s%s", first ? "" : " ", name + len + 1);
        first = false;
    }
}

static void print_first_words(void)
{
    printf("_spacesfs_groups='");
    for (unsigned i = 0; i < sfs_ncommand_groups; i++)
        printf("%s%s", i ? " " : "", sfs_command_groups[i].name);
    printf("'\n_spacesfs_first='--help --version");
    for (unsigned i = 0; i < sfs_ncommand_groups; i++)
        printf(" %s", sfs_command_groups[i].name);
    for (unsigned i = 0; i < sfs_ncommands; i++)
        if (!strchr(sfs_commands[i].name, ' '))
            printf(" %s", sfs_commands[i].name);
    printf("'\n_spacesfs_group() {\n    case $1 in\n");
    for (unsigned i = 0; i < sfs_ncommand_groups; i++) {
        printf("    %s) echo '--help ", sfs_command_groups[i].name);
        print_group(sfs_command_groups[i].name);
        printf("' ;;\n");
    }
    printf("    esac\n}\n");
}

int sfs_cmd_completion(struct sfs_cli *c)
{
    bool zsh = !strcmp(c->args[0], "zsh");
    if (!zsh && strcmp(c->args[0], "bash") != 0)
        return sfs_cli_usage(c, "`%s` is neither bash nor zsh.", c->args[0]);
    for (const char *line = zsh ? sfs_completion_zsh : sfs_completion_bash; *line; line += strcspn(line, "\n") + 1) {
        if (!strncmp(line, "@TABLE@", 7))
            print_table();
        else if (!strncmp(line, "@WORDS@", 7))
            print_first_words();
        else
            printf("%.*s\n", (int)strcspn(line, "\n"), line);
    }
    return SFS_EXIT_OK;
}
