"""Operations over whole stores. Each is a function with a typed request and a typed report; shell, page, REST and
Python call them.

Stores are given as ports. Nothing is printed or asked here: a face does that.
"""
