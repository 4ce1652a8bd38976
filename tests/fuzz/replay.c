/*
 * replay.c - feeds a corpus through a fuzz target, without libFuzzer.
 *
 * Every input that ever broke a decoder stays in tests/fuzz/corpus/<name>/;
 * this main hands each of them, the empty input, and every file named on the
 * command line to LLVMFuzzerTestOneInput. Built with each sanitizer it is the
 * regression test of the fuzzers. TR_CORPUS names the folder.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the file's bytes, owned by the caller; ends the program if it cannot
 * be read. The block has exactly the file's size, so that a sanitizer sees a
 * read beyond it. */
static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    long end = ftell(file);
    *size = end > 0 ? (size_t)end : 0;
    uint8_t *data = malloc(*size > 0 ? *size : 1);
    rewind(file);
    if (data == NULL || fread(data, 1, *size, file) != *size) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return data;
}

static void replay(const char *path)
{
    size_t size;
    uint8_t *data = read_file(path, &size);
    printf("%s (%zu bytes)\n", path, size);
    fflush(stdout);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
}

/* Returns how many files of the folder were fed in. */
static unsigned replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        exit(2);
    }
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        int length =
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof(path)) {
            fprintf(stderr, "%s: name too long\n", entry->d_name);
            exit(2);
        }
        replay(path);
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
        count++;
    }
    const char *folder = getenv("TR_CORPUS");
    if (argc == 1 && folder != NULL) {
        (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
        count += replay_folder(folder);
    }
    printf("%u inputs\n", count);
    return count > 0 ? 0 : 2;
}
