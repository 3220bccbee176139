"""Operations over whole stores: a function with a typed request and a typed report for each; shell, page, REST and
Python call them.

Stores are given as ports, and nothing is printed or asked here: a face does that.
"""
