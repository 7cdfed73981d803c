"""Values of every CQL type, there and back."""

import datetime
import decimal
import ipaddress
import random
import unittest
import uuid

import qosproxy
from qosproxy.v1 import value_pb2 as pb
from qosproxy.values import decode, encode

UTC = datetime.timezone.utc
ADDRESS = pb.Type(kind=pb.TYPE_KIND_UDT, name="address", field_names=["street", "Zip"], elements=[pb.Type(), pb.Type()])


class RoundTrip(unittest.TestCase):
    """What a row returns is what a key of it was."""

    def same(self, value, t=pb.Type()):
        back = decode(t, encode(value))
        self.assertEqual(back, value)
        self.assertIs(type(back), type(value))

    def test_integers_keep_every_bit(self):
        for exponent in (0, 1, 7, 8, 15, 31, 52, 53, 62, 63, 64, 127, 200):
            for beside in (-1, 0, 1):
                for sign in (-1, 1):
                    self.same(sign * (1 << exponent) + beside)

    def test_bigint_and_varint(self):
        for number in (-(1 << 63), (1 << 63) - 1, (1 << 53) + 1):
            self.assertEqual(encode(number).WhichOneof("kind"), "bigint")
        for number in (-(1 << 63) - 1, 1 << 63):
            self.assertEqual(encode(number).WhichOneof("kind"), "varint")
        self.assertEqual(encode(-128 - (1 << 64)).varint, (-128 - (1 << 64)).to_bytes(9, "big", signed=True))

    def test_varint_bytes_are_the_fewest(self):
        for number, raw in ((0, b"\0"), (127, b"\x7f"), (128, b"\0\x80"), (-128, b"\x80"), (-129, b"\xff\x7f")):
            self.assertEqual(encode(decimal.Decimal(number)).decimal.unscaled, raw)

    def test_decimals_keep_their_scale(self):
        for text in ("0", "1.50", "1.5", "-0.001", "1E+30", "-123456789012345678901234567890.123456789", "0E-7"):
            value = decimal.Decimal(text)
            self.same(value)
            self.assertEqual(decode(pb.Type(), encode(value)).as_tuple(), value.as_tuple())
        large = decimal.Decimal((1, (7,) * 6000, -3))  # beyond the context's precision, and int's limit of digits
        self.assertEqual(decode(pb.Type(), encode(large)).as_tuple(), large.as_tuple())
        for text in ("NaN", "Infinity"):
            with self.assertRaises(ValueError):
                encode(decimal.Decimal(text))

    def test_scalars(self):
        for value in (
            "é", "", b"", b"\0\xff", True, False, 0.5, -0.0, 7.0, qosproxy.Float(0.25), uuid.uuid1(), uuid.uuid4(),
            ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::ffff:127.0.0.1"), ipaddress.ip_address("2001:db8::1"),
            datetime.date.min, datetime.date.max, qosproxy.Date(-(1 << 31)), qosproxy.Date((1 << 31) - 1),
            datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
            qosproxy.Timestamp(-(1 << 63)), qosproxy.Timestamp((1 << 63) - 1), qosproxy.Time(86_399_999_999_999),
            qosproxy.Duration(-1, -2, -3), qosproxy.Cql(b"\0"), qosproxy.EMPTY, None,
        ):  # fmt: skip
            with self.subTest(value=value):
                self.same(value)

    def test_nested(self):
        for value, t in (
            ([1, 2], pb.Type()),
            ({"a": [1], "b": []}, pb.Type()),
            (frozenset({1, 2}), pb.Type()),
            ((1, None, "x"), pb.Type()),
            (qosproxy.FloatVector((0.5, -1.0)), pb.Type()),
            (qosproxy.Vector(("a", "")), pb.Type()),
            (qosproxy.Udt(street="x", Zip=None), ADDRESS),
            (frozenset({qosproxy.FrozenUdt((("street", "x"), ("Zip", 7)))}), pb.Type(elements=[ADDRESS])),
            (frozenset({qosproxy.FrozenList((1, 2)), qosproxy.FrozenList(())}), pb.Type()),
            ({qosproxy.FrozenMap((("a", frozenset({1})),)): [2]}, pb.Type()),
        ):
            with self.subTest(value=value):
                self.same(value, t)

    def test_random_bytes(self):
        r = random.Random(1)
        for _ in range(2000):
            number = int.from_bytes(r.randbytes(r.randrange(1, 20)), "big", signed=True)
            self.same(number)
            self.same(decimal.Decimal(number).scaleb(0) if abs(number) < 10**27 else decimal.Decimal(number))

    def test_a_udt_older_than_its_last_fields(self):
        value = pb.Value(udt=pb.UdtValue(fields=[pb.Value(text="x")]))
        self.assertEqual(decode(ADDRESS, value), {"street": "x", "Zip": None})


class Keys(unittest.TestCase):
    """What is no key is refused with what to do."""

    def test_a_moment_needs_a_zone(self):
        with self.assertRaisesRegex(ValueError, "time zone"):
            encode(datetime.datetime(2026, 1, 1))
        east = datetime.timezone(datetime.timedelta(hours=1))
        self.assertEqual(encode(datetime.datetime(1970, 1, 1, 1, tzinfo=east)).timestamp, 0)

    def test_what_is_of_no_type(self):
        for value in (object(), datetime.timedelta(1), range(3), 1j):
            with self.assertRaises(TypeError):
                encode(value)

    def test_times(self):
        self.assertEqual(encode(datetime.time(1, 2, 3, 4)).time, 3_723_000_004_000)
        self.assertEqual(qosproxy.Time(3_723_000_004_567).time(), datetime.time(1, 2, 3, 4))


if __name__ == "__main__":
    unittest.main()
