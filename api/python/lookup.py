"""Looks products up through a qosproxy: lookup.py HOST:PORT KEY..."""

import sys

import qosproxy


def show(answer):
    """Prints the status of each key, and its rows."""
    for result in answer:
        print(result.key, result.status.name, *([] if result.answered else [result.reason]))
        if result.answered:
            for row in result.rows:
                for name, value in row.items():
                    print("   ", name, value)


def main(target, *keys):
    with qosproxy.Client(target) as client:
        try:
            # The proxy answers shortly before the deadline with the keys it has.
            show(client.batch_get("shop.products", keys, ["name", "stock"], timeout=0.5))
        except qosproxy.Error as error:
            print(error.code.name)
            print("reason", error.reason)
            if error.field:
                print("field", error.field)
            if error.answer:  # none was answered: why, for each
                show(error.answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
