/*
 * number_test.c - numbers are written exactly and read back.
 */
#include "schema_types.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rand.h"
#include "schema/number.h"

static void expect_text(double value, bool single, const char *text)
{
    char buf[TRI_NUMBER_TEXT_MAX + 1];

    buf[tri_float_write(buf, value, single)] = '\0';
    assert_string_equal(buf, text);
}

static void test_floats_have_the_shortest_text(void **state)
{
    (void)state;
    expect_text(0, false, "0");
    expect_text(-0.0, false, "-0");
    expect_text(1, false, "1");
    expect_text(-12.5, false, "-12.5");
    expect_text(0.1, false, "0.1");
    expect_text(0.1 + 0.2, false, "0.30000000000000004");
    expect_text(100, false, "100");
    expect_text(0.001, false, "0.001");
    expect_text(0.00001, false, "0.00001");
    expect_text(1e-7, false, "1e-07");
    expect_text(123456789.125, false, "123456789.125");
    expect_text(1e14, false, "100000000000000");
    expect_text(1e15, false, "1e+15");
    expect_text(1e300, false, "1e+300");
    expect_text(5e-324, false, "5e-324");
    expect_text(DBL_MAX, false, "1.7976931348623157e+308");
    expect_text((double)0.1f, true, "0.1");
    expect_text((double)3.4028235e38f, true, "3.4028235e+38");
    expect_text((double)1e-45f, true, "1e-45");
    expect_text((double)16777216.0f, true, "16777216");
}

static void test_integers_have_all_digits(void **state)
{
    char buf[TRI_NUMBER_TEXT_MAX + 1];

    (void)state;
    buf[tri_int_write(buf, INT64_MIN)] = '\0';
    assert_string_equal(buf, "-9223372036854775808");
    buf[tri_int_write(buf, INT64_MAX)] = '\0';
    assert_string_equal(buf, "9223372036854775807");
    buf[tri_int_write(buf, 0)] = '\0';
    assert_string_equal(buf, "0");
    buf[tri_uint_write(buf, UINT64_MAX)] = '\0';
    assert_string_equal(buf, "18446744073709551615");
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void round_trip(double value)
{
    char buf[TRI_NUMBER_TEXT_MAX];
    size_t length = tri_float_write(buf, value, false);

    if (!same_bits(tri_float_read(buf, length), value))
        fail_msg("%.17g became %.*s", value, (int)length, buf);
}

static void round_trip_single(float value)
{
    char buf[TRI_NUMBER_TEXT_MAX];
    size_t length = tri_float_write(buf, (double)value, true);
    float back = (float)tri_float_read(buf, length);

    if (memcmp(&back, &value, sizeof(back)) != 0)
        fail_msg("%.9g became %.*s", (double)value, (int)length, buf);
}

static void test_random_floats_are_read_as_written(void **state)
{
    tri_rand rand;

    (void)state;
    tri_rand_init(&rand, 3);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = tri_rand_next(&rand);
        double value;
        float single;
        memcpy(&value, &bits, sizeof(value));
        memcpy(&single, &bits, sizeof(single));
        if (isfinite(value)) round_trip(value);
        if (isfinite(single)) round_trip_single(single);
        round_trip((double)(bits >> 40) / 1000);
        round_trip(ldexp((double)(bits >> 11), -(int)(bits & 1023)));
    }
}

static void test_reads_like_strtod(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1e22",
        "1e23",
        "9007199254740993",
        "1.5e-10",
        "123456789012345678901234567890",
        "0.1e1",
        "1e-400",
        "4.9e-324",
        "2.2250738585072011e-308",
        "1E5",
        "1e+5",
        "0.000001",
        "1e100000000",
        "179769313486231580793728971405303415079934132710037826936173778980"
        "444968292764750946649017977587207096330286416692887910946555547851"
        "940402630657488671505820681908902000708383676273854845817711531764"
        "475730270069855571366959622842914819860834936475292719074168444365"
        "510704342711559699508093042880",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        double wanted = strtod(texts[i], NULL);
        double got = tri_float_read(texts[i], strlen(texts[i]));
        if (!same_bits(wanted, got))
            fail_msg("%s: %.17g, not %.17g", texts[i], got, wanted);
    }
}

/* A locale with a decimal comma changes neither writing nor reading. */
/* Compiles a locale with a decimal comma and sets it; false if it cannot. */
static bool set_comma_locale(void)
{
    char folder[] = "/tmp/troupe-locale-XXXXXX", command[256];

    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL) {
        return true;
    }
    if (mkdtemp(folder) == NULL) {
        return false;
    }
    snprintf(command, sizeof(command),
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null", folder);
    bool made = system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
                setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) == 0 && made;
}

static void test_locale_changes_nothing(void **state)
{
    (void)state;
    if (!set_comma_locale()) {
        skip();  // there is no localedef, or no sources of locales
    }
    assert_string_equal(localeconv()->decimal_point, ",");
    expect_text(0.1 + 0.2, false, "0.30000000000000004");
    assert_true(
        same_bits(tri_float_read("0.30000000000000004", 19), 0.1 + 0.2));
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_have_the_shortest_text),
        cmocka_unit_test(test_integers_have_all_digits),
        cmocka_unit_test(test_random_floats_are_read_as_written),
        cmocka_unit_test(test_reads_like_strtod),
        cmocka_unit_test(test_locale_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
