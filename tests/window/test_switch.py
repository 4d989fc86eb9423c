"""Drafting stops where it does not pay, and is tried again ever more seldom."""

from draftwalk.window.switch import Switch

GOOD, BAD = (3.0, 1.5), (1.2, 1.6)


def steps_to_next_probe(switch: Switch) -> int:
    steps = 1
    while not switch.asks():
        steps += 1
    return steps


def test_it_takes_some_steps_to_give_up() -> None:
    switch = Switch()
    for step in range(8):
        assert switch.on, step
        assert switch.asks()
        switch.tell(*BAD)
    assert not switch.on


def test_a_bad_step_now_and_then_is_no_reason() -> None:
    switch = Switch()
    for step in range(200):
        switch.tell(*(BAD if step % 3 else GOOD))
    assert switch.on


def test_a_loss_of_less_than_two_percent_is_borne() -> None:
    switch = Switch()
    for _ in range(100):
        switch.tell(1.49, 1.5)
    assert switch.on


def given_up() -> Switch:
    switch = Switch()
    for _ in range(8):
        switch.tell(*BAD)
    return switch


def test_probes_come_at_growing_intervals() -> None:
    switch = given_up()
    intervals = []
    for _ in range(9):
        intervals.append(steps_to_next_probe(switch))
        switch.tell(*BAD)
    assert intervals == [2, 4, 8, 16, 32, 64, 64, 64, 64]


def test_probes_that_agree_turn_it_on() -> None:
    switch = given_up()
    for _ in range(5):
        steps_to_next_probe(switch)
        switch.tell(*BAD)
    probes = 0
    while not switch.on:
        waited = steps_to_next_probe(switch)
        assert probes == 0 or waited == 2, "after a good probe the next one comes soon"
        switch.tell(*GOOD)
        probes += 1
    assert 2 <= probes <= 6
    assert all(switch.asks() for _ in range(5))


def test_what_was_taken_up_again_is_soon_given_up_if_it_was_a_mistake() -> None:
    switch = given_up()
    while not switch.on:
        steps_to_next_probe(switch)
        switch.tell(*GOOD)
    steps = 0
    while switch.on:
        switch.tell(*BAD)
        steps += 1
    assert steps == 3


def test_a_new_text_begins_as_the_last_one_went_on() -> None:
    assert Switch().following().on
    switch = given_up()
    assert steps_to_next_probe(switch.following()) == 2
    for _ in range(7):
        steps_to_next_probe(switch)
        switch.tell(*BAD)
    following = switch.following()
    assert not following.on
    assert steps_to_next_probe(following) == 16
